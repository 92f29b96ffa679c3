"""Opens `diffusers:CLASS`: every network of diffusers (denoisers, autoencoders, control nets, adapters), small and
seeded."""

from __future__ import annotations

import functools
import importlib
import logging
from typing import Any

from torch import nn

from mindgap.sources.libraries import import_library, silence_output
from mindgap.sources.program import Built, Program
from mindgap.sources.source import Source, SourceError, SourceOptions, source_options, suggest
from mindgap.sources.weights.construction import construct, parameters_on_meta
from mindgap.sources.weights.tensor_registry import TensorRegistry
from mindgap_zoo.argument_makers.diffusers_cases import BORROWERS, CASES, PARTS
from mindgap_zoo.argument_makers.diffusers_inputs import InputMaker, ModelCase
from mindgap_zoo.weights.seeding import finished, seed_weights
from mindgap_zoo.zoos.diffusers.shrinking import shrink_arguments

#: A class that no rule makes smaller than this is not built.
_MOST_PARAMETERS = 60_000_000
_BASES = ("ModelMixin", "LegacyModelMixin")


def _diffusers() -> Any:
    library = import_library("diffusers", "diffusers:", "diffusers")
    library.logging.set_verbosity_error()
    logging.getLogger("diffusers").setLevel(logging.ERROR)
    return library


def names() -> list[str]:
    models: Any = importlib.import_module(f"{_diffusers().__name__}.models")
    exported: dict[str, list[str]] = models._import_structure
    return sorted({name for listed in exported.values() for name in listed if _class_of(name) is not None})


def _class_of(name: str) -> Any:
    """Returns the class of that name if it is a network, else None."""
    library = _diffusers()
    models: Any = importlib.import_module(f"{library.__name__}.models")
    model_class = getattr(models, name, None)
    is_network = isinstance(model_class, type) and issubclass(model_class, library.ModelMixin) and name not in _BASES
    return model_class if is_network else None


def open_diffusers(source: Source) -> list[Program]:
    chosen = source_options(source)
    model_class = _class_of(source.target)
    if model_class is None:
        near = suggest(source.target, names())
        raise SourceError(f"{source.text}: diffusers has no network {source.target!r}{near}")
    return [Program(source.target, source.text, functools.partial(_build, source, model_class, chosen))]


def _build(source: Source, model_class: Any, chosen: SourceOptions) -> Built:
    case = CASES.get(source.target, ModelCase())
    with silence_output():
        model = construct(source, chosen, functools.partial(_create, model_class, case, chosen.layers or 2))
        registry = TensorRegistry()
        seed_weights(model, chosen.seed, registry)
        given, fixed = InputMaker(model, case, chosen, registry).call_arguments(source)
        return finished(model, chosen, registry, kwargs=given, fixed=fixed, source=source)


def _create(model_class: Any, case: ModelCase, layers: int) -> nn.Module:
    own = {**case.config}
    if model_class.__name__ in PARTS:
        argument, part, count = PARTS[model_class.__name__]
        own[argument] = [_create(_class_of(part), CASES.get(part, ModelCase()), layers) for _ in range(count)]
    config = shrink_arguments(model_class, own, layers)
    count = parameters_on_meta(functools.partial(model_class, **config))
    if count is not None and count > _MOST_PARAMETERS:
        raise ValueError(f"{count:,} parameters even when made small")
    model = model_class(**config)
    if model_class.__name__ in BORROWERS:
        lender = BORROWERS[model_class.__name__]
        model = model_class.from_transformer(model, _create(_class_of(lender), CASES.get(lender, ModelCase()), layers))
    return model
