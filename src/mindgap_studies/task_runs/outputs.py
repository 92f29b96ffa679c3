"""Turns a model's outputs into predictions, and refuses outputs that are no answer to the task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from mindgap.graph import Array, MindgapError
from mindgap.graph.compare.digest import widened
from mindgap_studies.results.predictions import NOT_FINITE, Prediction, Task, Truth

#: Labels of a classification that are kept.
_KEPT: Final = 5
#: Detections of an image that are kept, as many as COCO counts.
_BOXES: Final = 100
#: How far sums of probabilities may be from 1.
_SUM: Final = 1e-2


def check_outputs(task: Task, outputs: Sequence[tuple[tuple[int, ...], str]], batch: int) -> None:
    """Raises `MindgapError` for outputs that cannot be read as answers. `outputs`: shape and dtype of each."""
    shape, dtype = _first(outputs)
    given = f"its first output is {dtype}{list(shape)}"
    floats = dtype.startswith(("float", "bfloat"))
    if task == "detection":
        wanted = [*outputs[:3]]
        if len(wanted) < 2 or len(shape) != 3 or shape[0] != batch or shape[2] != 4 or not floats:
            raise MindgapError(
                f"the model's outputs are no detections: {given}: return boxes [batch, N, 4], and scores [batch, N, "
                "classes] or scores [batch, N] with labels [batch, N]"
            )
        if wanted[1][0][:2] != shape[:2] or (len(wanted[1][0]) == 2 and (len(wanted) < 3 or wanted[2][0] != shape[:2])):
            raise MindgapError(
                f"the model's outputs are no detections: boxes are {list(shape)} and scores {list(wanted[1][0])}: give "
                "scores [batch, N, classes], or scores [batch, N] with labels [batch, N]"
            )
        return
    dims = 3 if task == "language" else 2
    words = "[batch, tokens, vocabulary]" if task == "language" else "[batch, classes]"
    if not floats or len(shape) != dims or shape[0] != batch or shape[-1] < 2:
        raise MindgapError(f"the model's outputs are no logits: {given}: give floats {words}, two classes or more")
    if task == "localisation":
        boxes = outputs[1][0] if len(outputs) > 1 else ()
        if boxes not in ((batch, 4), (batch, shape[1], 4)):
            given = list(boxes) if boxes else "missing"
            raise MindgapError(
                f"the model gives no boxes: its second output is {given}: give [batch, 4] or [batch, classes, 4]"
            )


def _first(outputs: Sequence[tuple[tuple[int, ...], str]]) -> tuple[tuple[int, ...], str]:
    return outputs[0] if outputs else ((), "nothing")


def are_probabilities(logits: Array) -> bool:
    """Returns whether every row is a distribution, so that the model ends in a softmax."""
    return bool((logits >= 0).all() and (np.abs(logits.sum(-1) - 1) < _SUM).all())


def like_probabilities(logits: Array, reference: bool) -> bool:
    """Returns whether a column gives probabilities. `reference`: whether the reference does.

    A form may lack the model's softmax, or have one that the model lacks. Where the reference gives probabilities,
    values in 0..1 are enough: those of an int8 softmax are steps, whose sum is not 1. Rows that are not finite do not
    count.
    """
    finite = logits[np.isfinite(logits).all(-1)]
    if not finite.size:
        return reference
    return bool((finite > -_SUM).all() and (finite < 1 + _SUM).all()) if reference else are_probabilities(finite)


def predictions_of(
    task: Task, outputs: Sequence[Array], reference: Sequence[Array], truths: Sequence[Truth], first: int = 0
) -> list[Prediction]:
    """Returns what the outputs of a batch predict for its samples from place `first` of the batch on.

    `reference`: the same outputs of the reference, to measure deviations. NaN and infinities give `NOT_FINITE`.
    """
    wide = [_wide(array) for array in outputs]
    apart = [_deviations(ours, _wide(theirs)) for ours, theirs in zip(wide, reference, strict=True)]
    deviations = np.max(apart, 0) if apart else np.zeros(len(truths))
    if task == "detection":
        return [_detection(wide, place, truth.sample, deviations[place]) for place, truth in enumerate(truths, first)]
    # One decision for the batch: a row of logits may sum to 1 by chance.
    logs = log_softmax(wide[0], like_probabilities(wide[0], are_probabilities(_wide(reference[0]))))
    if task == "language":
        return [
            _text(wide[0][place], logs[place], truth, deviations[place]) for place, truth in enumerate(truths, first)
        ]
    return [
        _label(wide, logs[place], place, truth, deviations[place], task) for place, truth in enumerate(truths, first)
    ]


def _wide(array: Array) -> Array:
    return widened(array).astype(np.float64) if array.dtype.kind not in "iub" else array.astype(np.float64)


def _deviations(ours: Array, theirs: Array) -> Array:
    """The largest absolute difference of each sample; infinite where one side alone is not finite."""
    if ours.shape != theirs.shape:
        return np.full(len(ours), np.inf)
    with np.errstate(invalid="ignore"):
        apart = np.where((ours == theirs) | (np.isnan(ours) & np.isnan(theirs)), 0.0, np.abs(ours - theirs))
    return np.nan_to_num(apart.reshape(len(ours), -1), nan=np.inf).max(1, initial=0.0)


def log_softmax(logits: Array, probabilities: bool) -> Array:
    """Returns log-probabilities along the last dimension; of probabilities, their logarithms."""
    if probabilities:
        return np.log(np.maximum(logits, np.finfo(np.float64).tiny))
    with np.errstate(invalid="ignore"):  # rows that are not finite get no label
        moved = logits - logits.max(-1, keepdims=True)
        return moved - np.log(np.exp(moved).sum(-1, keepdims=True))


def _label(outputs: Sequence[Array], logs: Array, place: int, truth: Truth, deviation: float, task: Task) -> Prediction:
    logits = outputs[0][place]
    if not np.isfinite(logits).all():
        return Prediction(truth.sample, (NOT_FINITE,), loss=float("inf"), deviation=float(deviation))
    order = np.argsort(-logits, kind="stable")
    kept = order[:_KEPT]
    boxes = ()
    if task == "localisation":
        found = outputs[1][place]
        boxes = tuple(map(float, (found[kept] if found.ndim == 2 else found).reshape(-1)))
    return Prediction(
        truth.sample, tuple(map(int, kept)), float(logits[order[0]] - logits[order[1]]), float(np.exp(logs[order[0]])),
        float(-logs[truth.labels[0]]), float(deviation), boxes,
    )  # fmt: skip


def _text(logits: Array, logs: Array, truth: Truth, deviation: float) -> Prediction:
    finite = np.isfinite(logits).all(-1)
    best = logits.argmax(-1)
    if not finite.all():
        labels = tuple(map(int, np.where(finite, best, NOT_FINITE)))
        return Prediction(truth.sample, labels, loss=float("inf"), deviation=float(deviation))
    two = np.sort(logits, -1)[:, -2:]
    positions = np.arange(len(best))
    return Prediction(
        truth.sample, tuple(map(int, best)), float((two[:, 1] - two[:, 0]).min()),
        float(np.exp(logs[positions, best]).mean()), float(-logs[positions, list(truth.labels)].mean()),
        float(deviation),
    )  # fmt: skip


def _detection(outputs: Sequence[Array], place: int, sample: int, deviation: float) -> Prediction:
    boxes, scores = outputs[0][place], outputs[1][place]
    labels: Array
    if scores.ndim == 2:
        count, classes = map(int, scores.shape)
        labels = np.asarray(np.tile(np.arange(classes), count), np.int64)
        boxes, scores = np.repeat(boxes, classes, 0), scores.reshape(-1)
    else:
        labels = np.asarray(outputs[2][place], np.int64)
    if not np.isfinite(scores).all() or not np.isfinite(boxes).all():
        return Prediction(
            sample, (NOT_FINITE,), deviation=float(deviation), boxes=(0.0, 0.0, 0.0, 0.0), scores=(0.0,)
        )  # fmt: skip
    order = np.argsort(-scores, kind="stable")[:_BOXES]
    order = order[scores[order] > 0]
    return Prediction(
        sample, tuple(map(int, labels[order])), deviation=float(deviation),
        boxes=tuple(map(float, boxes[order].reshape(-1))), scores=tuple(map(float, scores[order])),
    )  # fmt: skip
