"""Opens `transformers:NAME`: a class (`BertModel`) or a model type (`bert`), with a small configuration."""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch import nn

from mindgap.sources.libraries import import_library, silence_output
from mindgap.sources.program import Built, Program
from mindgap.sources.source import Source, SourceError, SourceOptions, one_line, source_options, suggest
from mindgap.sources.weights.construction import construct
from mindgap.sources.weights.tensor_registry import TensorRegistry
from mindgap_zoo.argument_makers.overrides import ABSENT, CONFIGURATION, IMPOSSIBLE
from mindgap_zoo.argument_makers.shrinking import Shrinking, shrink_configuration, stays_wide
from mindgap_zoo.argument_makers.transformers_arguments import (
    Again,
    Arguments,
    Sizes,
    TokenRowCounter,
    candidates,
    modalities_in_text,
)
from mindgap_zoo.weights.seeding import finished, seed_weights

_log = logging.getLogger(__name__)

#: A model that is wider than this after shrinking is not built.
_MOST_PARAMETERS = 60_000_000
#: Tokens in a text for one picture or one piece of sound.
_MOST_PLACES = 1024


def _transformers() -> Any:
    library = import_library("transformers", "transformers:", "transformers")
    library.logging.set_verbosity_error()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    return library


def names(heads: bool = False) -> list[str]:
    """Returns the base class of every model type; with `heads`, every class that adds a task head to one, without
    bases."""
    auto: Any = _transformers().models.auto.modeling_auto
    base = _classes(auto.MODEL_MAPPING_NAMES)
    if not heads:
        return list(base)
    names_known: dict[str, None] = {}
    mappings = cast("dict[str, Any]", vars(auto))
    for name in sorted(mappings):
        if name.startswith("MODEL_FOR_") and name.endswith("_MAPPING_NAMES"):
            names_known.update(_classes(mappings[name]))
    return [name for name in names_known if name not in base]


def _classes(mapping: Mapping[str, Any]) -> dict[str, None]:
    classes: dict[str, None] = {}
    for value in mapping.values():
        classes.update(dict.fromkeys([value] if isinstance(value, str) else value))
    return classes


def open_transformers(source: Source) -> list[Program]:
    chosen = source_options(source)
    name = source.target
    library = _transformers()
    types: Any = library.models.auto.modeling_auto.MODEL_MAPPING_NAMES
    class_name = types.get(name, name)
    if not isinstance(class_name, str):
        class_name = class_name[0]
    model_class = _class_named(library, class_name)
    if isinstance(model_class, type) and any("DummyObject" in type(kind).__name__ for kind in model_class.__mro__):
        needs = " and ".join(getattr(model_class, "_backends", ["packages"]))
        raise SourceError(f"{source.text}: it needs {needs}, which is not installed")
    model_type = str(getattr(getattr(model_class, "config_class", None), "model_type", ""))
    why = IMPOSSIBLE.get(class_name, IMPOSSIBLE.get(model_type))
    if why is not None:
        raise SourceError(f"{source.text}: no graph can be had of it: {why}")
    if not (
        isinstance(model_class, type) and issubclass(model_class, nn.Module) and hasattr(model_class, "config_class")
    ):
        known = [*types, *names(), *(n for n in dir(library) if "For" in n or n.endswith("Model"))]
        raise SourceError(f"{source.text}: transformers has no model {name!r}{suggest(name, known)}")
    return [Program(class_name, source.text, functools.partial(_build, source, model_class, chosen))]


def _class_named(library: Any, class_name: str) -> Any:
    """Returns the class, from the library or from its model's own module."""
    model_class = getattr(library, class_name, None)
    if model_class is not None:
        return model_class
    auto: Any = library.models.auto
    for model_type, names_of in auto.modeling_auto.MODEL_MAPPING_NAMES.items():
        if class_name in ([names_of] if isinstance(names_of, str) else names_of):
            folder = auto.configuration_auto.model_type_to_module_name(model_type)
            with contextlib.suppress(ImportError):
                module = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
                return getattr(module, class_name, None)
    return None


def _build(source: Source, model_class: Any, chosen: SourceOptions) -> Built:
    """Builds the first small configuration that runs: with all arguments if possible, else with the main ones."""
    failures: list[str] = []
    models: list[nn.Module] = []
    for model in _models(source, model_class, chosen, failures):
        models.append(model)
        if built := _with_arguments(model, chosen, failures, whole=True):
            return built
    for model in models:
        if built := _with_arguments(model, chosen, failures, whole=False):
            _log.info("%s: runs with its main arguments only: %s", source.text, "; ".join(failures[:3]))
            return built
    reason = failures[0] if failures else "there is no telling what arguments it takes"
    raise SourceError(reason if reason.startswith(source.text) else f"{source.text}: {reason}")


def _models(source: Source, model_class: Any, chosen: SourceOptions, failures: list[str]) -> Iterator[nn.Module]:
    """Yields the model in each small configuration that can be built. Appends errors to `failures`."""
    tried: set[str] = set()
    for way in _ways(chosen):
        try:
            small = _configured(model_class, way)
            if str(small) in tried:
                continue
            tried.add(str(small))
            model = construct(source, chosen, functools.partial(_create, model_class, way, small))
        except SourceError as error:
            failures.append(str(error))
            continue
        yield model


def _ways(chosen: SourceOptions) -> Iterator[Shrinking]:
    layers = chosen.layers or 2
    for size in [chosen.size] if chosen.size else [64, 224]:
        yield from (Shrinking("divided", layers, size), Shrinking("uniform", layers, size))
    yield Shrinking("shallow", layers, chosen.size)


def _configured(model_class: Any, way: Shrinking) -> dict[str, Any]:
    with silence_output():
        try:
            small = shrink_configuration(model_class.config_class().to_dict(), way)
        except Exception as error:
            raise SourceError(f"its configuration raised {one_line(error)}") from error
    _apply_overrides(small)
    return small


def _apply_overrides(small: dict[str, Any]) -> None:
    """Sets the table's values for this model type and those of its parts."""
    for part in small.values():
        if isinstance(part, dict) and "model_type" in part:
            _apply_overrides(cast("dict[str, Any]", part))
    for path, value in CONFIGURATION.get(str(small.get("model_type")), {}).items():
        _set_path(small, path, value)


def _create(model_class: Any, way: Shrinking, small: dict[str, Any]) -> nn.Module:
    """Creates a small model. Raises the error of the model's own code if the small configuration does not fit."""
    with silence_output():
        config = model_class.config_class.from_dict(small)
        # One matrix product for all experts: the other ways loop over what the router decided.
        config._experts_implementation = "batched_mm"
        with torch.device("meta"):
            wide = stays_wide(model_class.config_class().to_dict(), way)
            parameters = sum(p.numel() for p in model_class(config).parameters()) if wide else 0
        if parameters > _MOST_PARAMETERS:
            raise ValueError(f"{parameters:,} parameters even with {way.layers} layers")
        return model_class(config)


def _with_arguments(model: nn.Module, chosen: SourceOptions, failures: list[str], whole: bool) -> Built | None:
    """Returns the seeded model with the first arguments that it accepts, or None. Appends errors to `failures`."""
    registry = TensorRegistry()
    seed_weights(model, chosen.seed, registry)
    sizes = Sizes(chosen.batch or 1, chosen.length or 12, chosen.size, chosen.seed, chosen.dtype or "float32")
    arguments = arguments_of(model, sizes, registry, failures, [whole])
    return arguments and finished(model, chosen, registry, kwargs=arguments.given, fixed=arguments.fixed)


def arguments_of(
    model: nn.Module, sizes: Sizes, registry: TensorRegistry, failures: list[str],
    kinds: Sequence[bool] = (True, False),
) -> Arguments | None:  # fmt: skip
    """Returns the first arguments that a model runs with, or None. Appends errors to `failures`. `kinds`: values of
    `candidates`' parameter `whole`, in turn."""
    every = (again for whole in kinds for again in candidates(model, sizes, registry, whole))
    accepted = (_accepted(model, again, failures) for again in every)
    return next((arguments for arguments in accepted if arguments is not None), None)


def _accepted(model: nn.Module, again: Again, failures: list[str]) -> Arguments | None:
    """Returns the arguments if the model runs with them, with as many placeholder tokens as it has feature rows."""
    arguments = again({})
    try:
        kinds = modalities_in_text(model, arguments)
        if kinds:
            # The library compares numbers of tokens and rows, which a graph cannot: they are made equal here instead.
            os.environ["TRANSFORMERS_DISABLE_TORCH_CHECK"] = "1"
            arguments = again(dict.fromkeys(kinds, 1))
            scatters = TokenRowCounter(model, arguments.given["input_ids"])
            with scatters:
                _try(model, arguments)
            if not all(0 < rows <= _MOST_PLACES for rows in scatters.rows.values()):
                raise ValueError(f"the text would need {scatters.rows} tokens for what stands beside it")
            arguments = again(scatters.rows)
        _try(model, arguments)
    except Exception as error:
        failures.append(f"with {arguments} it raised {one_line(error)}")
        return None
    return arguments


def _try(model: nn.Module, arguments: Arguments) -> None:
    with torch.no_grad(), silence_output():
        model(**arguments.given, **arguments.fixed)


def _set_path(config: dict[str, Any], path: str, value: Any) -> None:
    """Sets a value by its dotted path if that part of the configuration exists."""
    *parts, last = path.split(".")
    for part in parts:
        inner: Any = config.get(part)
        if not isinstance(inner, dict):
            return
        config = cast("dict[str, Any]", inner)
    if value is ABSENT:
        config.pop(last, None)
    else:
        config[last] = value
