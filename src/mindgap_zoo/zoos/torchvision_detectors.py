"""Turns torchvision's detectors into programs whose shapes do not depend on values.

Included: normalisation, resizing and padding of the images, backbone and feature pyramid, heads, anchors, decoding and
clipping of boxes, scores, and the choice of a fixed number of boxes by score. Two-stage detectors also include the
choice of proposals, their level in the pyramid, region-of-interest alignment, the box head, and the mask or keypoint
head on the chosen boxes.

Left out, because the number of boxes that remain depends on their values: dropping boxes that are small or score low,
non-maximum suppression, and drawing at the original image size (pasting masks, positions of keypoints). Regions are
aligned with `grid_sample` because torchvision's operator is not in ATen. Samples outside a map take the value at its
border.
"""

from __future__ import annotations

import math
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import nn

#: Boxes that the second stage looks at, and that its masks or keypoints are made for.
_PROPOSALS: Final = 64
_DRAWN: Final = 8
#: Detections of a picture, and candidates of each level of a pyramid.
_DETECTIONS: Final = 100

Detection = dict[str, torch.Tensor]


def fixed_shape_detector(detector: Any, edge: int | None) -> nn.Module:
    """Returns the detector as a function of images (batch, 3, height, width) that gives a dictionary of tensors for
    each.

    `edge`: the size in pixels that the shorter side is resized to, if the detector does not fix it.
    """
    if edge is not None:
        detector.transform.min_size, detector.transform.max_size = (edge,), edge
    # SSD asks for values up to 255, on which untrained weights give every box the score of 1.
    detector.transform.image_std = [max(std, 0.1) for std in detector.transform.image_std]
    return TwoStage(detector) if hasattr(detector, "roi_heads") else OneStage(detector)


class OneStage(nn.Module):
    """SSD, RetinaNet and FCOS: boxes (k, 4), scores (k,) and labels (k,) of each image."""

    def __init__(self, detector: Any) -> None:
        super().__init__()
        self.detector: Any = detector

    def forward(self, pictures: torch.Tensor) -> list[Detection]:
        images, features = _features(self.detector, pictures)
        heads: dict[str, torch.Tensor] = self.detector.head(features)
        anchors: list[torch.Tensor] = self.detector.anchor_generator(images, features)
        scores, first = _scores(heads, hasattr(self.detector, "neg_to_pos_ratio"))
        count = scores.shape[1]
        levels = [count]
        if first == 0:
            cells = [level.shape[2] * level.shape[3] for level in features]
            levels = [count // sum(cells) * each for each in cells]
        sizes: list[tuple[int, int]] = images.image_sizes
        offsets = heads["bbox_regression"]
        chosen = [self._chosen(*one, levels) for one in zip(scores, offsets, anchors, sizes, strict=True)]
        return [{**one, "labels": one["labels"] + first} for one in chosen]

    def _chosen(
        self,
        scores: torch.Tensor,
        offsets: torch.Tensor,
        anchors: torch.Tensor,
        size: tuple[int, int],
        levels: list[int],
    ) -> Detection:
        """Returns the best of the best candidates of each level.

        `scores`: (anchors, classes); `levels`: the anchors of each level.
        """
        classes = scores.shape[1]
        kept: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
        parts = zip(_split(scores, levels), _split(offsets, levels), _split(anchors, levels), strict=True)
        for score, offset, anchor in parts:
            best, where = _best(score.flatten(), _DETECTIONS)
            row = torch.div(where, classes, rounding_mode="floor")
            coder: Any = self.detector.box_coder
            # FCOS decodes a batch of boxes with coordinates last, the others one set of boxes.
            decode: Any = getattr(coder, "decode_single", coder.decode)
            kept.append((_clipped(decode(offset[row], anchor[row]), size), best, where % classes))
        boxes, all_scores, labels = (torch.cat(column) for column in zip(*kept, strict=True))
        best, where = _best(all_scores, _DETECTIONS)
        return {"boxes": boxes[where], "scores": best, "labels": labels[where]}


class TwoStage(nn.Module):
    """Faster, Mask and Keypoint R-CNN: boxes, scores and labels of each image.

    Also `masks` (k, 1, 28, 28) as probabilities, or `keypoints` (k, points, 56, 56) as heat maps.
    """

    def __init__(self, detector: Any) -> None:
        super().__init__()
        self.detector: Any = detector

    def forward(self, pictures: torch.Tensor) -> list[Detection]:
        images, features = _features(self.detector, pictures)
        rpn: Any = self.detector.rpn
        objectness, offsets = rpn.head(features)
        anchors: list[torch.Tensor] = rpn.anchor_generator(images, features)
        counts = [level[0].numel() for level in objectness]
        scores = torch.cat([_rows(level, 1) for level in objectness], 1).squeeze(-1)
        moved = torch.cat([_rows(level, 4) for level in offsets], 1)
        detections: list[Detection] = []
        for index, size in enumerate(images.image_sizes):
            boxes = rpn.box_coder.decode(moved[index].detach(), [anchors[index]]).reshape(-1, 4)
            proposals = _proposals(scores[index].detach(), boxes, counts, size)
            detections.append(self._second_stage([level[index : index + 1] for level in features], proposals, size))
        return detections

    def _second_stage(self, features: list[torch.Tensor], proposals: torch.Tensor, size: tuple[int, int]) -> Detection:
        heads: Any = self.detector.roi_heads
        pooled = _aligned(heads.box_roi_pool, features, proposals, size)
        logits, offsets = heads.box_predictor(heads.box_head(pooled))
        boxes = _clipped(heads.box_coder.decode(offsets, [proposals]), size)[:, 1:]
        scores = F.softmax(logits, -1)[:, 1:]  # The first class is background.
        classes = scores.shape[1]
        drawn = heads.has_mask() or heads.has_keypoint()
        best, where = _best(scores.flatten(), _DRAWN if drawn else _DETECTIONS)
        labels = where % classes + 1
        detection = {"boxes": boxes.reshape(-1, 4)[where], "scores": best, "labels": labels}
        if heads.has_mask():
            shapes = _aligned(heads.mask_roi_pool, features, detection["boxes"], size)
            masks = heads.mask_predictor(heads.mask_head(shapes)).sigmoid()
            detection["masks"] = masks[torch.arange(len(labels)), labels][:, None]
        if heads.has_keypoint():
            shapes = _aligned(heads.keypoint_roi_pool, features, detection["boxes"], size)
            detection["keypoints"] = heads.keypoint_predictor(heads.keypoint_head(shapes))
        return detection


def _features(detector: Any, pictures: torch.Tensor) -> tuple[Any, list[torch.Tensor]]:
    """Returns the images as the detector prepares them, and its features, largest maps first."""
    images, _ = detector.transform(list(pictures.unbind(0)))
    features = detector.backbone(images.tensors)
    return images, [features] if isinstance(features, torch.Tensor) else list(features.values())


def _rows(level: torch.Tensor, each: int) -> torch.Tensor:
    """Reshapes a head's map (batch, anchors·each, height, width) to a row per anchor, in the order of anchors."""
    batch, channels, height, width = level.shape
    split = level.view(batch, channels // each, each, height, width)
    return split.permute(0, 3, 4, 1, 2).reshape(batch, -1, each)


def _scores(heads: dict[str, torch.Tensor], softmax: bool) -> tuple[torch.Tensor, int]:
    """Returns scores (batch, anchors, classes) and the index of the first class.

    Class 0 of SSD is the background. FCOS multiplies each score by the centredness of its position in the box.
    """
    logits = heads["cls_logits"]
    if softmax:
        return logits.softmax(-1)[..., 1:], 1
    if "bbox_ctrness" in heads:
        return torch.sqrt(logits.sigmoid() * heads["bbox_ctrness"].sigmoid()), 0
    return logits.sigmoid(), 0


def _best(scores: torch.Tensor, most: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the `most` largest values of a vector (all of a shorter one) and their indices."""
    values, positions = scores.topk(min(most, len(scores)))
    return values, positions


def _split(rows: torch.Tensor, counts: list[int]) -> list[torch.Tensor]:
    parts: Any = torch.split(rows, counts)
    return list(parts)


def _clipped(boxes: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """Clips boxes (..., 4) of left, top, right and bottom to an image of this height and width."""
    height, width = size
    left, top, right, bottom = boxes.unbind(-1)
    sides = (left.clamp(0, width), top.clamp(0, height), right.clamp(0, width), bottom.clamp(0, height))
    return torch.stack(sides, -1)


def _proposals(scores: torch.Tensor, boxes: torch.Tensor, counts: list[int], size: tuple[int, int]) -> torch.Tensor:
    """Returns the best boxes of all levels, out of the best of each level."""
    of_levels = zip(_split(scores, counts), _split(boxes, counts), strict=True)
    best: list[torch.Tensor] = []
    candidates: list[torch.Tensor] = []
    for level, of_level in of_levels:
        values, positions = _best(level, _DETECTIONS)
        best.append(values)
        candidates.append(of_level[positions])
    chosen = _best(torch.cat(best), _PROPOSALS)[1]
    return _clipped(torch.cat(candidates)[chosen], size)


def _aligned(pooler: Any, features: list[torch.Tensor], boxes: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """Returns each box's part of the feature map whose cells suit its size: (boxes, channels, rows, columns).

    See equation 1 of Lin et al., Feature Pyramid Networks for Object Detection, 2017. Every level is sampled for every
    box, then one is taken.
    """
    maps = features[: len(pooler.featmap_names)]
    rows, columns = pooler.output_size
    steps = [2 ** round(math.log2(size[0] / level.shape[2])) for level in maps]
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    level = torch.floor(
        pooler.canonical_level + torch.log2(areas.clamp(min=1e-6).sqrt() / pooler.canonical_scale + 1e-6)
    )
    lowest = round(math.log2(steps[0]))
    level = level.clamp(lowest, lowest + len(maps) - 1) - lowest
    taken = _sampled(maps[0], boxes / steps[0], rows, columns, pooler.sampling_ratio)
    for number in range(1, len(maps)):
        other = _sampled(maps[number], boxes / steps[number], rows, columns, pooler.sampling_ratio)
        taken = torch.where((level == number)[:, None, None, None], other, taken)
    return taken


def _sampled(level: torch.Tensor, boxes: torch.Tensor, rows: int, columns: int, ratio: int) -> torch.Tensor:
    """Aligns regions of interest (He et al., Mask R-CNN, 2017): the mean of ratio² bilinear samples in each bin.

    `level`: (1, channels, height, width); `boxes`: (n, 4) in its cells.
    """
    height, width = level.shape[2:]
    spans = (boxes[:, 2:] - boxes[:, :2]).clamp(min=1.0)
    across = boxes[:, :1] + spans[:, :1] * _middles(columns * ratio, boxes)
    down = boxes[:, 1:2] + spans[:, 1:] * _middles(rows * ratio, boxes)
    x = (across * (2 / (width - 1)) - 1)[:, None, :].expand(-1, rows * ratio, -1)
    y = (down * (2 / (height - 1)) - 1)[:, :, None].expand(-1, -1, columns * ratio)
    positions = torch.stack((x, y), -1).reshape(1, -1, columns * ratio, 2)
    samples = F.grid_sample(level, positions, mode="bilinear", padding_mode="border", align_corners=True)
    means = F.avg_pool2d(samples, ratio)
    return means.reshape(level.shape[1], len(boxes), rows, columns).transpose(0, 1)


def _middles(count: int, like: torch.Tensor) -> torch.Tensor:
    """Returns the midpoints of equal parts of [0, 1)."""
    return (torch.arange(count, dtype=like.dtype, device=like.device) + 0.5) / count
