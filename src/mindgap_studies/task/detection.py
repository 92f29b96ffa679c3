"""Measures boxes: ILSVRC's localisation error and detection precision, and COCO's average precision.

Source: Russakovsky et al., "ImageNet Large Scale Visual Recognition Challenge" (arXiv 1409.0575), section 4; Lin et
al., "Microsoft COCO" (arXiv 1405.0312) for COCO's.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# (pycocotools is optional and untyped)

from __future__ import annotations

import contextlib
import importlib
import io
from collections.abc import Mapping
from typing import Any

import numpy as np

from mindgap.graph import Array
from mindgap_studies.results.predictions import NOT_FINITE, Prediction, Truth
from mindgap_studies.task.boxes import OVERLAP, areas, box_array, overlaps, taken


def localised(prediction: Prediction, truth: Truth) -> bool:
    """Returns whether one of the first five guesses has the right label and a box that overlaps a true one.

    Of a prediction with one box, all guesses have that box.
    """
    true = box_array(truth.boxes)
    boxes = box_array(prediction.boxes)
    if len(boxes) == 1:
        boxes = np.repeat(boxes, len(prediction.labels), 0)
    right = [place for place, label in enumerate(prediction.labels[:5]) if label == truth.labels[0]]
    return bool(right) and bool((overlaps(boxes[right], true) >= OVERLAP).any())


def required_overlap(boxes: Array) -> Array:
    """Returns the overlap that ILSVRC asks of a detection for each true box: min(0.5, w h / ((w + 10) (h + 10)))."""
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    return np.minimum(OVERLAP, width * height / ((width + 10) * (height + 10)))


def detection_precisions(predictions: Mapping[int, Prediction], truths: Mapping[int, Truth]) -> dict[int, float]:
    """Returns the average precision of each class that some image has, as ILSVRC's detection task defines it.

    Detections of a class, over all images by falling score, take the free true box of highest overlap, if that is at
    least `required_overlap`; any other is a false positive. The average precision is the area under precision over
    recall, where precision is made to fall (the largest at this recall or above), as in the challenge's own code.
    """
    classes = sorted({label for truth in truths.values() for label in truth.labels})
    return {label: _precision_of(label, predictions, truths) for label in classes}


def _precision_of(label: int, predictions: Mapping[int, Prediction], truths: Mapping[int, Truth]) -> float:
    scores: list[float] = []
    hits: list[bool] = []
    total = 0
    for sample, truth in truths.items():
        true = box_array(truth.boxes)[np.asarray(truth.labels, np.int64) == label]
        total += len(true)
        one = predictions.get(sample)
        if one is None:
            continue
        mine = [place for place, each in enumerate(one.labels) if each == label]
        mine.sort(key=lambda place, scores=one.scores: -scores[place])
        scores += [one.scores[place] for place in mine]
        shared = overlaps(box_array(one.boxes)[mine], true)
        hits += taken(shared, shared >= required_overlap(true))
    order = np.argsort(-np.asarray(scores), kind="stable")
    return _area(np.asarray(hits, np.bool_)[order], total)


def _area(hits: Array, total: int) -> float:
    if not len(hits):
        return 0.0
    right = np.cumsum(hits)
    recall = np.concatenate([[0.0], right / total])
    precision = np.maximum.accumulate((right / np.arange(1, len(hits) + 1))[::-1])[::-1]
    return float((np.diff(recall) * precision).sum())


def coco_precision(predictions: Mapping[int, Prediction], truths: Mapping[int, Truth]) -> tuple[float, float] | None:
    """Returns COCO's average precision, mean over overlaps of 0.5 to 0.95 and at 0.5, computed by pycocotools.

    None where pycocotools is not installed (`pip install 'mindgap[task]'`), or no image has a true box.
    """
    try:
        coco_of: Any = importlib.import_module("pycocotools.coco").COCO
        evaluation: Any = importlib.import_module("pycocotools.cocoeval").COCOeval
    except ImportError:
        return None
    classes = sorted({label for truth in truths.values() for label in truth.labels})
    if not classes:
        return None
    true = [
        {"image_id": sample, "category_id": label, "bbox": _coco_box(box), "area": float(areas(box[None])[0]),
         "iscrowd": 0}
        for sample, truth in truths.items()
        for label, box in zip(truth.labels, box_array(truth.boxes), strict=True)
    ]  # fmt: skip
    detections = [
        {"image_id": sample, "category_id": label, "bbox": _coco_box(box), "score": score}
        for sample, one in predictions.items()
        for label, box, score in zip(one.labels, box_array(one.boxes), one.scores, strict=True)
        if label != NOT_FINITE
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        base = coco_of()
        base.dataset = {
            "images": [{"id": sample} for sample in truths],
            "categories": [{"id": label} for label in classes],
            # An id of 0 would count as no match.
            "annotations": [{**each, "id": number} for number, each in enumerate(true, 1)],
        }
        base.createIndex()
        if not detections:
            return 0.0, 0.0
        run = evaluation(base, base.loadRes(detections), "bbox")
        run.evaluate()
        run.accumulate()
        run.summarize()
    return float(run.stats[0]), float(run.stats[1])


def _coco_box(box: Array) -> list[float]:
    return [float(box[0]), float(box[1]), float(box[2] - box[0]), float(box[3] - box[1])]
