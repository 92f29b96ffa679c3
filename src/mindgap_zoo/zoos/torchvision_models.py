"""Opens `torchvision:NAME`: classifiers, segmentation, video, optical flow, detectors (see
`torchvision_detectors`)."""

from __future__ import annotations

from typing import Any, Final

from torch import nn

from mindgap.sources.libraries import import_library
from mindgap.sources.program import Built, Program
from mindgap.sources.source import Source, SourceOptions
from mindgap.sources.weights.construction import construct, parameters_of
from mindgap_zoo.argument_makers.image_inputs import with_pictures
from mindgap_zoo.zoos.named_model import open_named, require_name
from mindgap_zoo.zoos.torchvision_detectors import OneStage, TwoStage, fixed_shape_detector

#: Edge in pixels of the pictures that boxes are found in: the smallest that torchvision offers a detector for.
_DETECTED: Final = 320
_NO_MODEL: Final = "torchvision has no model"


def _models() -> Any:
    return import_library("torchvision.models", "torchvision:", "torchvision")


def names() -> list[str]:
    return sorted(_models().list_models())


def open_torchvision(source: Source) -> list[Program]:
    return open_named(source, names(), _NO_MODEL, _build)


def parameters(source: Source) -> int:
    """Returns the number of parameters, without memory for them. Raises `SourceError` as `open_torchvision` does."""
    require_name(source, names(), _NO_MODEL)
    return parameters_of(source, lambda: _create(source.target, None))


def _build(source: Source, chosen: SourceOptions) -> Built:
    model = construct(source, chosen, lambda: _create(source.target, chosen.size))
    return with_pictures(model, _shapes(model, source.target, chosen.examples, chosen.size), chosen)


def _create(name: str, size: int | None) -> nn.Module:
    models = _models()
    builder = models.get_model_builder(name)
    family = builder.__module__.split(".")[2]
    if family == "detection":
        detector = builder(weights=None, weights_backbone=None)
        return fixed_shape_detector(detector, None if name.startswith("ssd") else size or _DETECTED)
    if family == "segmentation":
        return builder(weights=None, weights_backbone=None)
    if family == "quantization":
        return builder(weights=None, quantize=False)
    if name in ("googlenet", "inception_v3"):
        return builder(weights=None, init_weights=False)
    return builder(weights=None)


def _shapes(model: nn.Module, name: str, batch: int, size: int | None) -> list[tuple[int, ...]]:
    """Returns the shapes of a model's arguments."""
    family = type(model).__module__.split(".")[2] if type(model).__module__.startswith("torchvision") else ""
    if family == "video":
        frames, edge = (16, 224) if name.startswith(("mvit", "swin3d")) else (8, 112)
        return [(batch, 3, frames, size or edge, size or edge)]
    if family == "optical_flow":
        return [(batch, 3, size or 128, size or 128)] * 2
    if isinstance(model, (OneStage, TwoStage)):
        edge = size or (300 if name.startswith("ssd300") else _DETECTED)
        return [(batch, 3, edge, edge)]
    edge = size or getattr(model, "image_size", None) or (299 if name.startswith("inception") else 224)
    return [(batch, 3, edge, edge)]
