"""Which detections rounding can change: scores at the threshold, choices within the graph; and what it cannot."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from mindgap.graph import default_tensor_store
from mindgap.models.capture import capture
from mindgap.platforms.pytorch.eager import CPU
from mindgap.results.predictions import ComparedForm, Flip, Prediction, TaskResult, Truth
from mindgap.run.local import run_job
from mindgap.run.outcome import Job, Outcome
from mindgap.studies.task.study import danger_facts
from mindgap.workflows.task.columns import ModelForm
from mindgap.workflows.task.dataset_client import Examples
from mindgap.workflows.task.detections import (
    DetectionSide,
    ExactDetections,
    exact_detections,
    near_detection,
)
from mindgap.workflows.task.flips import FlipSearch
from mindgap.workflows.task.near_ties import NarrowArithmetic
from mindgap.workflows.task.running import TaskRun, TaskSettings, read_digest

FLIP = Flip("cpu/jit", 0, 0, -1, -1, -1, "unjudged")
BATCH = 3


class Suppressing(torch.nn.Module):
    """Scales boxes [B, 2, 4] and scores [B, 2, 1]. The second box is suppressed where it overlaps the first, the better
    one, by more than 0.5."""

    def forward(self, boxes: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        boxes, scores = boxes * 0.1, scores * 0.1
        low, high = torch.maximum(boxes[:, 0, :2], boxes[:, 1, :2]), torch.minimum(boxes[:, 0, 2:], boxes[:, 1, 2:])
        shared = (high - low).clamp(min=0).prod(-1)
        areas = (boxes[..., 2:] - boxes[..., :2]).prod(-1)
        overlap = shared / (areas.sum(-1) - shared)
        second = torch.where(overlap > 0.5, torch.zeros_like(scores[:, 1, 0]), scores[:, 1, 0])
        return boxes, torch.stack([scores[:, 0, 0], second], 1)[..., None]


class Sorting(torch.nn.Module):
    """Scales boxes [B, 2, 4] and scores [B, 2], and gives them by falling score, with their places as labels."""

    def forward(self, boxes: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        best, places = (scores * 0.1).topk(2, 1)
        return torch.gather(boxes * 0.1, 1, places[..., None].expand(-1, -1, 4)), best, places


def box(width: float) -> list[float]:
    return [0.0, 0.0, width, 10.0]


@pytest.fixture(scope="module")
def suppressing() -> tuple[ExactDetections, list[Any]]:
    """Three samples: overlaps of 2/3, of 0.5 but for 1e-7, and of 1/3. In the last a score is 0.5 but for 1e-7."""
    boxes = np.asarray([[box(15), box(10)], [box(20), box(10 * (1 + 2e-7))], [box(30), box(10)]], np.float32)
    scores = np.asarray([[[9], [8]], [[9], [8]], [[9], [5 + 1e-6]]], np.float32)
    return _evaluated(Suppressing(), boxes, scores)


def _evaluated(model: torch.nn.Module, *given: Any) -> tuple[ExactDetections, list[Any]]:
    with torch.no_grad():
        arguments = tuple(map(torch.from_numpy, given))
        form = ModelForm("", "model", capture(model, arguments))
        outputs = [each.numpy() for each in model(*arguments)]
    return exact_detections(form, given, default_tensor_store()), outputs


def side(outputs: list[Any], **more: Any) -> DetectionSide:
    return replace(DetectionSide("cpu/jit", outputs, None, as_file=False), **more)


def test_overlaps_and_scores_that_are_near_ties(suppressing: tuple[ExactDetections, list[Any]]) -> None:
    found, _ = suppressing
    clear, overlap, score = (near_detection("", sample, sample, found) for sample in range(BATCH))
    assert not clear.in_danger and clear.margin > 1e-2
    assert overlap.in_danger and overlap.margin < 1e-6 and overlap.best == -1 and "aten.gt.Scalar" in overlap.what
    assert score.in_danger and score.best == 0 and score.what == "score of box 1, label 0, and 0.5"
    assert score.margin < 2e-7 < score.limit < 1e-4


def test_a_flip_is_judged_by_what_both_sides_give(suppressing: tuple[ExactDetections, list[Any]]) -> None:
    found, outputs = suppressing
    good = side(outputs)
    judged = found.verdict(FLIP, [good, good], 2)
    assert judged.verdict == "rounding" and judged.margin <= judged.limit and "score of box 1" in judged.note
    moved = [outputs[0] + np.float32(0.01), outputs[1]]
    for off, sides in (("cpu/jit", [side(moved), good]), ("cpu/eager", [good, side(moved, name="cpu/eager")])):
        judged = found.verdict(FLIP, sides, 0)
        assert judged.verdict == "beyond" and f"{off}: box 0 is 0.01 off" in judged.note
        assert judged.limit < judged.margin == pytest.approx(0.01, rel=1e-2)
    suppressed = [outputs[0], outputs[1].copy()]
    suppressed[1][:, 1] = 0.8 - suppressed[1][:, 1]
    # The second box is there on one side alone: wrong where the overlap is clear, not known where it is a near tie.
    assert found.verdict(FLIP, [side(suppressed), good], 0).verdict == "beyond"
    judged = found.verdict(FLIP, [side(suppressed), good], 1)
    assert judged.verdict == "unjudged" and "it may have turned another way" in judged.note
    assert found.verdict(FLIP, [side(moved, as_file=True), good], 0).verdict == "unjudged"


def test_fewer_bits_explain_what_they_can(suppressing: tuple[ExactDetections, list[Any]]) -> None:
    found, outputs = suppressing
    for off, growth, verdict in (
        (2e-4, 2.0**13, "reduced precision"),
        (0.3, 2.0**13, "beyond"),
        (0.3, np.inf, "unjudged"),
    ):
        moved = side([outputs[0] * np.float32(1 + off), outputs[1]], narrow=NarrowArithmetic("in float16", growth))
        judged = found.verdict(FLIP, [moved, side(outputs)], 0)
        assert judged.verdict == verdict and (verdict == "beyond" or "in float16" in judged.note)


def test_another_order_of_equal_scores_is_rounding() -> None:
    boxes = np.asarray([[box(15), box(10)]] * 2, np.float32)
    found, outputs = _evaluated(Sorting(), boxes, np.asarray([[9, 9.000001], [9, 8]], np.float32))
    near, clear = (near_detection("", sample, sample, found) for sample in (0, 1))
    assert near.in_danger and "aten.topk" in near.what and not clear.in_danger
    other = [each[:, ::-1].copy() for each in outputs]
    other[1][1] = outputs[1][1]
    good = side(outputs)
    assert found.verdict(FLIP, [side(other), good], 0).verdict == "rounding"
    assert found.verdict(FLIP, [side(other), good], 1).verdict == "beyond"


class Detector:
    """Runs jobs in eager mode in this process, but for `cpu/jit`, which moves boxes."""

    def __init__(self) -> None:
        self._platform = CPU.open({})

    def describe(self, name: str) -> dict[str, Any]:
        return {}

    def run(self, job: Job) -> Outcome:
        found = run_job(self._platform, job, tensors=default_tensor_store())
        if job.platform.device_mode == "cpu/eager" or found.arrays is None:
            return found
        return replace(found, arrays=(found.arrays[0] + np.float32(0.5), *found.arrays[1:]))


@pytest.mark.parametrize(("platform", "verdict"), [("cpu/eager@threads=1", "rounding"), ("cpu/jit", "beyond")])
def test_a_study_runs_both_sides_again_and_has_samples_in_danger(platform: str, verdict: str) -> None:
    boxes = np.asarray([[box(15), box(10)], [box(30), box(10)]], np.float32)
    scores = np.asarray([[[9], [8]], [[9], [5 + 1e-6]]], np.float32)
    truths = tuple(Truth(number, (0,), (0.0, 0.0, 1.0, 1.0)) for number in (0, 1))
    examples = Examples(truths, (boxes, scores), (), False)
    with torch.no_grad():
        graph = capture(Suppressing(), (torch.from_numpy(boxes), torch.from_numpy(scores)))
    home, column = ComparedForm("", "cpu/eager"), ComparedForm("", platform)
    found = TaskResult("m", "d", "detection", (), (home, column))
    found.truths = {each.sample: each for each in truths}
    shown = Prediction(0, (0,), boxes=(0.0, 0.0, 1.5, 1.0), scores=(0.9,))
    found.predictions[home] = {0: shown, 1: Prediction(1, (0,), boxes=shown.boxes, scores=(0.5000001,))}
    found.predictions[column] = {0: shown, 1: Prediction(1, (0,), boxes=shown.boxes, scores=(0.4999999,))}
    pool: Any = Detector()
    client: Any = SimpleNamespace(read=lambda start, count: examples)
    unused: Any = None
    run = TaskRun(
        {"": ModelForm("", "model", graph)}, found.columns, client, pool, unused, unused, TaskSettings(origins=0),
        lambda *_: None, "m", {0: read_digest(examples)},
    )  # fmt: skip
    FlipSearch(run, found, default_tensor_store()).search()
    (flip,) = found.flips
    assert (flip.sample, flip.verdict) == (1, verdict)
    assert {tie.sample: tie.in_danger for tie in found.near_ties} == {0: False, 1: True}
    rows = {facts["form"]: (facts["examined"], facts["in_danger"], facts["sample"]) for facts in danger_facts(found)}
    assert rows == {"the model": (2, 1, 1)} and found.near_ties[0].what.startswith("score of box")
