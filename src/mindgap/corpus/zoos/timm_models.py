"""Opens `timm:NAME`: image models of PyTorch Image Models."""

from __future__ import annotations

from typing import Any

from torch import nn

from mindgap.corpus.libraries import import_library
from mindgap.corpus.program import Built, Program
from mindgap.corpus.source import Source, SourceError, SourceOptions, source_options, suggest
from mindgap.corpus.weights.construction import construct, parameters_of
from mindgap.corpus.zoos.image_inputs import with_pictures


def _timm() -> Any:
    """Imports the library. Raises `SourceError` if it is not installed."""
    return import_library("timm", "timm:", "timm")


def names() -> list[str]:
    """Returns all architectures of timm, sorted."""
    return sorted(_timm().list_models(pretrained=False))


def open_timm(source: Source) -> list[Program]:
    """Returns one program. Raises `SourceError` if timm has no such model."""
    chosen = source_options(source)
    _check(source)
    return [Program(source.target, source.text, lambda: _build(source, chosen))]


def parameters(source: Source) -> int:
    """Returns the number of parameters, without memory for them. Raises `SourceError` as `open_timm` does."""
    _check(source)
    return parameters_of(source, lambda: _create(source.target, None))


def _check(source: Source) -> None:
    if not _timm().is_model(source.target):
        raise SourceError(f"{source.text}: timm has no model {source.target!r}{suggest(source.target, names())}")


def _build(source: Source, chosen: SourceOptions) -> Built:
    model = construct(source, chosen, lambda: _create(source.target, chosen.size))
    config: Any = getattr(model, "pretrained_cfg", None) or {}
    channels, height, width = config.get("input_size", (3, 224, 224))
    if chosen.size is not None:
        height = width = chosen.size
    batch = chosen.batch or (2 if chosen.train else 1)
    return with_pictures(model, [(batch, channels, height, width)], chosen)


def _create(name: str, size: int | None) -> nn.Module:
    timm = _timm()
    if size is not None:
        try:
            return timm.create_model(name, pretrained=False, img_size=size)
        except TypeError:
            pass  # Convolutional nets take any size and have no such argument.
    return timm.create_model(name, pretrained=False)
