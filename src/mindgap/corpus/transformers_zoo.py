"""`transformers:NAME`: a class (`BertModel`) or a model type (`bert`), with a small configuration."""

from __future__ import annotations

import contextlib
import functools
import io
import logging
from collections.abc import Generator, Iterator
from typing import Any

import torch
from torch import nn

from mindgap.corpus.images import construct, stay_offline
from mindgap.corpus.ledger import Ledger
from mindgap.corpus.program import Built, Program
from mindgap.corpus.seeding import seed_statistics, seed_weights
from mindgap.corpus.source import Settings, Source, SourceError, one_line, settings, suggest
from mindgap.corpus.transformers_config import Shrinking, shrunk
from mindgap.corpus.transformers_inputs import Sizes, candidates

#: A model that is wider than this after shrinking is not built.
_MOST_PARAMETERS = 60_000_000


def _transformers() -> Any:
    """The library, quiet and offline. Raises `SourceError` where it is not installed."""
    from mindgap.corpus.torchvision_zoo import declare_operators

    stay_offline()
    try:
        with contextlib.suppress(ImportError):
            declare_operators()
        import transformers
    except ImportError as error:
        raise SourceError(f"transformers: is not installed ({error}); pip install 'mindgap[transformers]'") from error
    transformers.logging.set_verbosity_error()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    return transformers


def names() -> list[str]:
    """The base class of every model type."""
    from_auto: Any = _transformers().models.auto.modeling_auto.MODEL_MAPPING_NAMES
    found: dict[str, None] = {}
    for value in from_auto.values():
        found.update(dict.fromkeys([value] if isinstance(value, str) else value))
    return list(found)


def open_transformers(source: Source) -> list[Program]:
    """One program. Raises `SourceError` for a name that is neither a model's class nor a model type."""
    chosen = settings(source)
    name = source.target
    library = _transformers()
    types: Any = library.models.auto.modeling_auto.MODEL_MAPPING_NAMES
    class_name = types.get(name, name)
    if not isinstance(class_name, str):
        class_name = class_name[0]
    found = getattr(library, class_name, None)
    if not (isinstance(found, type) and issubclass(found, nn.Module) and hasattr(found, "config_class")):
        known = [*types, *names(), *(n for n in dir(library) if "For" in n or n.endswith("Model"))]
        raise SourceError(f"{source.text}: transformers has no model {name!r}{suggest(name, known)}")
    return [Program(class_name, source.text, functools.partial(_build, source, found, chosen))]


def _build(source: Source, model_class: Any, chosen: Settings) -> Built:
    """The first small configuration and set of arguments with which the model runs."""
    failures: list[str] = []
    for way in _ways(chosen):
        try:
            model = construct(source, chosen, functools.partial(_create, model_class, way))
        except SourceError as error:
            failures.append(str(error))
            continue
        built = _with_arguments(model, chosen, failures)
        if built is not None:
            return built
    reason = failures[0] if failures[0].startswith(source.text) else f"{source.text}: {failures[0]}"
    raise SourceError(reason)


def _ways(chosen: Settings) -> Iterator[Shrinking]:
    layers = chosen.layers or 2
    sizes = [chosen.size] if chosen.size else [64, 224]
    for size in sizes:
        yield Shrinking("divided", layers, size)
        yield Shrinking("uniform", layers, size)
    yield Shrinking("shallow", layers, chosen.size)


def _create(model_class: Any, way: Shrinking) -> nn.Module:
    """A small model. Raises whatever its own code raises where the small configuration does not fit."""
    config_class: Any = model_class.config_class
    with _silence():
        config = config_class.from_dict(shrunk(config_class().to_dict(), way))
        # One matrix product for all experts: the other ways loop over what the router decided.
        config._experts_implementation = "batched_mm"
        with torch.device("meta"):
            parameters = sum(p.numel() for p in model_class(config).parameters()) if way.how == "shallow" else 0
        if parameters > _MOST_PARAMETERS:
            raise ValueError(f"{parameters:,} parameters even with {way.layers} layers")
        return model_class(config)


def _with_arguments(model: nn.Module, chosen: Settings, failures: list[str]) -> Built | None:
    """The seeded model with the first arguments that it accepts, or None; what failed is added to `failures`."""
    ledger = Ledger()
    seed_weights(model, chosen.seed, ledger)
    sizes = Sizes(chosen.batch or 1, chosen.length or 12, chosen.size, chosen.seed, chosen.dtype or "float32")
    for arguments in candidates(model, sizes, ledger):
        try:
            with torch.no_grad(), _silence():
                model(**arguments)
        except Exception as error:
            failures.append(f"with {', '.join(arguments)} it raised {one_line(error)}")
            continue
        seed_statistics(model, functools.partial(model, **arguments), chosen.seed, ledger)
        if chosen.train:
            model.train()
        return Built(model, (), arguments, ledger)
    return None


@contextlib.contextmanager
def _silence() -> Generator[None]:
    """Zoo code prints advice to whoever trains; nobody here does."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield
