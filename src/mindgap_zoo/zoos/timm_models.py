"""Opens `timm:NAME`: image models of PyTorch Image Models."""

from __future__ import annotations

from typing import Any, Final

from torch import nn

from mindgap.sources.libraries import import_library
from mindgap.sources.program import Built, Program
from mindgap.sources.source import Source, SourceOptions
from mindgap.sources.weights.construction import construct, parameters_of
from mindgap_zoo.argument_makers.image_inputs import with_pictures
from mindgap_zoo.zoos.named_model import open_named, require_name

_NO_MODEL: Final = "timm has no model"


def _timm() -> Any:
    return import_library("timm", "timm:", "timm")


def names() -> list[str]:
    return sorted(_timm().list_models(pretrained=False))


def open_timm(source: Source) -> list[Program]:
    return open_named(source, _known(source.target), _NO_MODEL, _build)


def parameters(source: Source) -> int:
    """Returns the number of parameters, without memory for them. Raises `SourceError` as `open_timm` does."""
    require_name(source, _known(source.target), _NO_MODEL)
    return parameters_of(source, lambda: _create(source.target, None))


def _known(name: str) -> list[str]:
    """Returns the names that a source may have: timm also takes a name with a tag, `resnet18.a1_in1k`."""
    return [name] if _timm().is_model(name) else names()


def _build(source: Source, chosen: SourceOptions) -> Built:
    model = construct(source, chosen, lambda: _create(source.target, chosen.size))
    config: Any = getattr(model, "pretrained_cfg", None) or {}
    channels, height, width = config.get("input_size", (3, 224, 224))
    if chosen.size is not None:
        height = width = chosen.size
    return with_pictures(model, [(chosen.examples, channels, height, width)], chosen)


def _create(name: str, size: int | None) -> nn.Module:
    timm = _timm()
    if size is not None:
        try:
            return timm.create_model(name, pretrained=False, img_size=size)
        except TypeError:
            pass  # Convolutional nets take any size and have no such argument.
    return timm.create_model(name, pretrained=False)
