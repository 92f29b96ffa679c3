"""`torchvision:NAME`: classifiers, segmentation, video, optical flow, and detectors up to their raw heads."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from mindgap.corpus.images import construct, stay_offline, with_pictures
from mindgap.corpus.program import Built, Program
from mindgap.corpus.source import Settings, Source, SourceError, settings, suggest

#: Operators whose fake versions torchvision registers on import, which fails where its compiled half did not load.
_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[torch.library.Library] = []


def declare_operators() -> None:
    """Make `import torchvision` work beside a PyTorch that its compiled half was not built for.

    The published wheel expects a CUDA build. Its models are plain Python all the same; only the
    schemas of two operators must exist when it is imported. Where the compiled half loads, nothing
    is declared.
    """
    if _declared:
        return
    try:
        import torchvision  # noqa: F401  # pyright: ignore[reportUnusedImport] # the import is the test
    except RuntimeError:
        import sys

        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "FRAGMENT")
        for schema in _SCHEMAS:
            if not hasattr(torch.ops.torchvision, schema.partition("(")[0]):
                library.define(schema)  # pyright: ignore[reportUnknownMemberType] # untyped
        _declared.append(library)


def _models() -> Any:
    """`torchvision.models`. Raises `SourceError` where torchvision is not installed."""
    stay_offline()
    try:
        declare_operators()
        import torchvision.models
    except ImportError as error:
        raise SourceError(f"torchvision: is not installed ({error}); pip install 'mindgap[torchvision]'") from error
    return torchvision.models


def names() -> list[str]:
    """Every model that torchvision knows."""
    return list(_models().list_models())


def open_torchvision(source: Source) -> list[Program]:
    """One program. Raises `SourceError` for a name that torchvision does not know."""
    chosen = settings(source)
    known = names()
    if source.target not in known:
        raise SourceError(f"{source.text}: torchvision has no model {source.target!r}{suggest(source.target, known)}")
    return [Program(source.target, source.text, lambda: _build(source, chosen))]


def _build(source: Source, chosen: Settings) -> Built:
    model = construct(source, chosen, lambda: _create(source.target))
    batch = chosen.batch or (2 if chosen.train else 1)
    return with_pictures(model, _shapes(model, source.target, batch, chosen.size), chosen)


def _create(name: str) -> nn.Module:
    models = _models()
    builder = models.get_model_builder(name)
    family = builder.__module__.split(".")[2]
    if family == "detection":
        return RawDetector(builder(weights=None, weights_backbone=None))
    if family == "segmentation":
        return builder(weights=None, weights_backbone=None)
    if family == "quantization":
        return builder(weights=None, quantize=False)
    if name in ("googlenet", "inception_v3"):
        return builder(weights=None, init_weights=False)
    return builder(weights=None)


def _shapes(model: nn.Module, name: str, batch: int, size: int | None) -> list[tuple[int, ...]]:
    """The shapes of a model's arguments."""
    family = type(model).__module__.split(".")[2] if type(model).__module__.startswith("torchvision") else ""
    if family == "video":
        frames, edge = (16, 224) if name.startswith(("mvit", "swin3d")) else (8, 112)
        return [(batch, 3, frames, size or edge, size or edge)]
    if family == "optical_flow":
        return [(batch, 3, size or 128, size or 128)] * 2
    edge = size or getattr(model, "image_size", None) or (299 if name.startswith("inception") else 224)
    return [(batch, 3, edge, edge)]


class RawDetector(nn.Module):
    """A detector from pictures to the outputs of its heads, before boxes are chosen.

    How many boxes are kept depends on values, which a graph of fixed shapes cannot say. Of two-stage
    detectors this is the backbone and the region-proposal head.
    """

    def __init__(self, detector: nn.Module) -> None:
        super().__init__()
        self.backbone: Any = detector.backbone
        self.head: Any = detector.rpn.head if hasattr(detector, "rpn") else detector.head  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] # attributes of a module are untyped

    def forward(self, pictures: torch.Tensor) -> Any:
        features = self.backbone(pictures)
        maps = [features] if isinstance(features, torch.Tensor) else list(features.values())
        return self.head(maps)
