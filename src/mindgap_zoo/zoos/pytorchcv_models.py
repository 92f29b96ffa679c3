"""Opens `pytorchcv:NAME`: networks of pytorchcv, from ImageNet and CIFAR classifiers to pose, speech and video."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from torch import nn

from mindgap.sources.libraries import import_library
from mindgap.sources.program import Built, Program
from mindgap.sources.source import Source, SourceOptions
from mindgap.sources.weights.construction import construct, parameters_of
from mindgap_zoo.argument_makers.argument_specs import Tensor, filled, normal, zeros_and_ones
from mindgap_zoo.argument_makers.image_inputs import with_arguments, with_pictures
from mindgap_zoo.zoos.named_model import open_named, require_name

#: Pictures of more pixels than this (street scenes of 1024×2048) have their edges halved until they have fewer.
_MOST_PIXELS: Final = 500_000
#: Frames of a video, and their height and width.
_FRAMES, _HEIGHT, _WIDTH = 3, 64, 96
#: Of speech: features, and steps in time.
_FEATURES, _STEPS = 64, 160

#: Arguments of the networks that take something else than one picture, by the module that they come from.
_SPEECH = (normal(f"1 {_FEATURES} {_STEPS}"), filled("1", _STEPS))
_ARGUMENTS: Final[Mapping[str, tuple[Tensor, ...]]] = {
    "jasper": _SPEECH,
    "jasperdr": _SPEECH,
    "quartznet": _SPEECH,
    "raft": (normal("1 3 128 128"), normal("1 3 128 128")),
    "propainter_rfc": (
        normal(f"1 {_FRAMES} 2 {_HEIGHT} {_WIDTH}"),
        zeros_and_ones(f"1 {_FRAMES} 1 {_HEIGHT} {_WIDTH}"),
    ),
    "propainter_ip": (
        normal(f"{_FRAMES} 3 {_HEIGHT} {_WIDTH}"),
        zeros_and_ones(f"{_FRAMES} 1 {_HEIGHT} {_WIDTH}"),
        normal(f"{_FRAMES - 1} 4 {_HEIGHT} {_WIDTH}"),
    ),
    "voca": (normal("1 1 16 29"), filled("1", 3)),
    "nvpattexp": (normal("1 8 16 29"), filled("1", 3)),
    "visemenet": (normal("34 8 195"), normal("34 76")),
}
#: Arguments of constructors besides their defaults: speech as features, since the step from sound to them needs one
#: more library; poses as maps, since places in them are found by Python's own decisions.
_OPTIONS: Final[Mapping[str, dict[str, Any]]] = {
    "jasper": {"from_audio": False},
    "jasperdr": {"from_audio": False},
    "quartznet": {"from_audio": False},
    "alphapose_coco": {"return_heatmap": True},
    "simplepose_coco": {"return_heatmap": True},
    "simpleposemobile_coco": {"return_heatmap": True},
}
#: Channels of a picture, where they are not red, green and blue.
_CHANNELS: Final[Mapping[str, int]] = {"superpointnet": 1, "pfpcnet": 1}


_NO_MODEL: Final = "pytorchcv has no model"


def _builders() -> dict[str, Callable[..., nn.Module]]:
    """Returns the constructors by name. Raises `SourceError` if pytorchcv is not installed."""
    provider: Any = import_library("pytorchcv.model_provider", "pytorchcv:", "pytorchcv")
    return provider._models


def names() -> list[str]:
    return sorted(_builders())


def open_pytorchcv(source: Source) -> list[Program]:
    return open_named(source, names(), _NO_MODEL, _build)


def parameters(source: Source) -> int:
    """Returns the number of parameters, without memory for them."""
    return parameters_of(source, lambda: _create(source))


def _builder(source: Source) -> Callable[..., nn.Module]:
    known = _builders()
    require_name(source, known, _NO_MODEL)
    return known[source.target]


def _family(source: Source) -> str:
    return _builder(source).__module__.rpartition(".")[2]


def _build(source: Source, chosen: SourceOptions) -> Built:
    given = _ARGUMENTS.get(_family(source))
    model = construct(source, chosen, lambda: _create(source))
    if given is not None:
        return with_arguments(model, given, chosen)
    height, width = native = _native_size(model)
    if chosen.size is not None:
        height = width = chosen.size
    while height * width > _MOST_PIXELS:
        height, width = height // 2, width // 2
    if (height, width) != native:
        model = construct(source, chosen, lambda: _create(source, (height, width)))
    return with_pictures(model, [(chosen.examples, _CHANNELS.get(_family(source), 3), height, width)], chosen)


def _create(source: Source, edges: tuple[int, int] | None = None) -> nn.Module:
    builder, options = _builder(source), _OPTIONS.get(_family(source), {})
    if edges is not None:
        try:
            return builder(pretrained=False, in_size=edges, **options)
        except TypeError:
            pass  # Some take any size and have no such argument.
    return builder(pretrained=False, **options)


def _native_size(model: nn.Module) -> tuple[int, int]:
    """Returns height and width of the images that a network was designed for."""
    size: Any = getattr(model, "in_size", None)
    if not isinstance(size, tuple):
        return 224, 224
    height, width = cast("tuple[int, int]", size)
    return int(height), int(width)
