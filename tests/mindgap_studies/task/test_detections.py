"""Which detections rounding can change: scores at the threshold, choices within the graph; and what it cannot."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from mindgap.graph import default_tensor_store
from mindgap.graph_capture import capture
from mindgap.judge.oracle import FEW
from mindgap.platforms.pytorch.eager import CPU
from mindgap.run.local import run_job
from mindgap.run.outcome import Job, Outcome
from mindgap_studies.results.predictions import ComparedForm, Flip, TaskResult, Truth
from mindgap_studies.task.study import danger_facts
from mindgap_studies.task_runs.columns import ColumnRunner, ModelForm
from mindgap_studies.task_runs.dataset_client import Examples
from mindgap_studies.task_runs.detections import (
    DetectionSide,
    ExactDetections,
    exact_detections,
    near_detection,
)
from mindgap_studies.task_runs.flips import FlipSearch
from mindgap_studies.task_runs.near_ties import NarrowArithmetic
from mindgap_studies.task_runs.outputs import predictions_of
from mindgap_studies.task_runs.running import TaskRun, TaskSettings, read_digest

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
        moved = side(
            [outputs[0] * np.float32(1 + off), outputs[1]], narrow=NarrowArithmetic("in float16", growth, "float16")
        )
        judged = found.verdict(FLIP, [moved, side(outputs)], 0)
        assert judged.verdict == verdict and "in float16" in judged.note
    # Where the choice is within rounding of that many bits, it may have turned.
    choice = found.choices[0]
    assert choice is not None and choice.ratio > 1
    growth = 1.01 * choice.ratio
    wide = replace(found, limits=(found.limits[0], found.limits[1] / 100))
    judged = wide.verdict(
        FLIP, [replace(moved, narrow=NarrowArithmetic("in float16", growth, "float16")), side(outputs)], 0
    )
    assert judged.verdict == "unjudged" and "it may have turned another way" in judged.note


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


class Best(torch.nn.Module):
    """Gives the box [B, 2, 4] of the larger score [B, 2, 1], scaled, with the scores of other boxes [B, 2, 4]."""

    def forward(
        self, boxes: torch.Tensor, scores: torch.Tensor, others: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        best, place = torch.sigmoid(scores).topk(1, 1)
        chosen = torch.gather(boxes * 0.1, 1, place.expand(-1, -1, 4))
        scored = torch.cat([best[..., 0], torch.full_like(others[..., 0], 0.75) * 0.9], 1)
        return torch.cat([chosen, others * 0.1], 1), scored, torch.ones(scored.shape, dtype=torch.long)


#: Boxes and what else `Best` takes: another box chosen is 30 units off, and the largest coordinate is 390.
APART, OTHERS = [[0, 0, 150, 100], [300, 0, 450, 100]], [[3800, 3800, 3900, 3900], [10, 10, 20, 20]]


def best_of(scores: list[list[float]]) -> tuple[ExactDetections, list[Any]]:
    count = len(scores)
    boxes, others = (np.asarray([each] * count, np.float32) for each in (APART, OTHERS))
    return _evaluated(Best(), boxes, np.asarray(scores, np.float32)[..., None], others)


def test_numbers_that_are_equal_once_rounded_are_the_nearest_tie() -> None:
    found, outputs = best_of([[18.5, 18.0], [2.0, 1.0]])
    tie, clear = found.choices
    assert tie is not None and (tie.margin, tie.ratio) == (0.0, 0.0) and tie.limit > 0
    assert clear is not None and clear.ratio > 1e3
    other = [each.copy() for each in outputs]
    other[0][:, 0] = np.asarray(APART[1], np.float32) * np.float32(0.1)
    assert found.verdict(FLIP, [side(other), side(outputs)], 0).verdict in ("rounding", "unjudged")
    assert found.verdict(FLIP, [side(other), side(outputs)], 1).verdict == "beyond"


def test_a_value_that_jumps_with_a_choice_has_to_be_one_that_a_replay_gives() -> None:
    """The box of the best score is off by 25 of 390, less than the largest cut of a limit."""
    found, outputs = best_of([[2.0, 2.0000002], [2.0, 1.0]])
    assert found.jumps and len(found.replays) == FEW
    given = {tuple(each[0][0, 0].round(3)) for each in found.replays}
    assert given == {(0.0, 0.0, 15.0, 10.0), (30.0, 0.0, 45.0, 10.0)}, "replays choose both boxes"
    for row in APART:
        one = [each.copy() for each in outputs]
        one[0][0, 0] = np.nextafter(np.asarray(row, np.float32) * np.float32(0.1), np.float32(1e3))
        judged = found.verdict(FLIP, [side(one), side(outputs)], 0)
        assert judged.verdict == "rounding" and judged.margin <= judged.limit, row
    wrong = [outputs[0].copy(), *outputs[1:]]
    wrong[0][0, 0, ::2] += np.float32(25)
    judged = found.verdict(FLIP, [side(wrong), side(outputs)], 0)
    assert judged.verdict == "unjudged" and "it may have turned another way" in judged.note
    # Where no choice is near enough to turn, what jumps all the same is not judged either.
    far = replace(found, choices=(None, None))
    judged = far.verdict(FLIP, [side(wrong), side(outputs)], 0)
    assert judged.verdict == "unjudged" and "no replay gives this value" in judged.note
    # Both sides within rounding, and no tie that could turn: rounding does not explain another answer.
    judged = found.verdict(FLIP, [side(outputs), side(outputs)], 1)
    assert judged.verdict == "unjudged" and "no tie is near enough to turn" in judged.note


class Windows(torch.nn.Module):
    """Scores [B, 3] that are the largest of their neighbours, as 1, by comparison; and an overlap with 0.5."""

    def forward(self, boxes: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = torch.sigmoid(scores)
        largest = torch.nn.functional.max_pool1d(scores[:, None], 3, 1, 1)[:, 0]
        return boxes * 0.1, torch.where(scores == largest, scores, scores * 0.1)[..., None]


def test_an_element_that_is_compared_with_itself_is_no_tie() -> None:
    boxes = np.asarray([[box(10)] * 3] * 2, np.float32)
    found, _ = _evaluated(Windows(), boxes, np.asarray([[1, 2, 1], [18.5, 18, 0]], np.float32))
    clear, tie = found.choices
    assert clear is not None and clear.ratio > 1e3, "the largest is equal to itself"
    assert tie is not None and tie.ratio == 0, "two neighbours are 1.0"
    exact, _ = _evaluated(Suppressing(), np.asarray([[box(20), box(10)]], np.float32), np.asarray([[[9], [8]]], "f4"))
    (choice,) = exact.choices
    assert choice is not None and (choice.margin, choice.ratio) == (0.0, 0.0), "an overlap of exactly 0.5"


def compared(boxes: Any, limits: Any, wide: float = 0.0) -> ExactDetections:
    """Two detections with label 1, boxes [1, 2, 4] of exact arithmetic and their limits."""
    scores, labels = np.asarray([[0.9, 0.9]]), np.asarray([[1, 1]])
    exact = (np.asarray([boxes], np.float64), scores, labels)
    return ExactDetections(
        exact, (exact[0] + wide, scores, labels), (np.asarray([limits]), np.full((1, 2), 1e-3)), (None,)
    )


def test_each_detection_has_a_partner_of_its_own_in_any_order() -> None:
    found = compared([[0, 0, 10, 10], [0, 0, 11, 10]], [[1e-6, 1e-6, 1.05, 1e-6], [1e-6, 1e-6, 0.6, 1e-6]])
    # The first may be either, the second the first one alone. Limits of 1.05 are below a tenth of 11.
    for order in (1, -1):
        given = [np.asarray([[[0, 0, 10.5, 10], [0, 0, 9.0, 10]]])[:, ::order], *found.exact[1:]]
        assert found.beside(given, 0).within
        taken = [np.asarray([[[0, 0, 9.1, 10], [0, 0, 9.0, 10]]])[:, ::order], *found.exact[1:]]
        assert not found.beside(taken, 0).within, "both are the first one"
    wide = compared([[0, 0, 10, 10], [50, 0, 61, 10]], np.full((2, 4), 1e-3), 0.01)
    for order in (1, -1):
        assert wide.beside([each[:, ::order] for each in wide.wide], 0).within, "without roundings of results"


def test_a_wrong_label_is_named() -> None:
    found = compared([[0, 0, 10, 10], [50, 0, 61, 10]], np.full((2, 4), 1e-3))
    judged = found.verdict(FLIP, [side([*found.exact[:2], np.asarray([[1, 4]])]), side([*found.exact])], 0)
    assert judged.verdict == "beyond" and judged.note == "cpu/jit: label of box 1 is 4, and 1 in exact arithmetic"
    assert (judged.margin, judged.limit) == (3, 0)


class Gathered(torch.nn.Module):
    """The better of two boxes [B, 2, 4] by scores [B, 2, 1], along a dimension that is not the last."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def forward(self, boxes: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = scores * 0.1
        if self.how == "topk":
            place = scores.topk(1, 1)[1]
        elif self.how == "sort":
            place = scores.sort(1, descending=True)[1][:, :1]
        elif self.how == "max":
            place = scores.max(1, keepdim=True)[1]
        else:
            place = scores.argmax(1, keepdim=True)
        return torch.gather(boxes * 0.1, 1, place.expand(-1, -1, 4)), scores.amax(1, keepdim=True)


@pytest.mark.parametrize("how", ["topk", "sort", "max", "argmax"])
def test_orders_are_read_along_their_dimension(how: str) -> None:
    boxes = np.asarray([APART] * 2, np.float32)
    found, _ = _evaluated(Gathered(how), boxes, np.asarray([[[9], [9.000001]], [[9], [8]]], np.float32))
    near, clear = found.choices
    assert near is not None and near.ratio <= 1 and how in near.what
    assert clear is not None and clear.ratio > 1e3


class Detector:
    """Runs jobs in eager mode in this process. Other platforms than the reference move boxes, or scores above 0;
    `cpu/inductor` does so once."""

    def __init__(self) -> None:
        self._platform = CPU.open({})
        self._ran: Counter[str] = Counter()

    def describe(self, name: str) -> dict[str, Any]:
        return {}

    def run(self, job: Job) -> Outcome:
        found = run_job(self._platform, job, tensors=default_tensor_store())
        name = str(job.platform)
        self._ran[name] += 1
        if name == "cpu/eager" or found.arrays is None or (name == "cpu/inductor" and self._ran[name] > 1):
            return found
        boxes, scores = found.arrays
        if job.platform.device_mode == "cpu/eager":
            return replace(found, arrays=(boxes, np.where(scores > 0, scores - np.float32(2e-7), scores)))
        return replace(found, arrays=(boxes + np.float32(0.5), scores))


@pytest.mark.parametrize(
    ("platform", "verdicts"),
    [
        ("cpu/eager@threads=1", {1: "rounding"}),
        ("cpu/jit", {0: "beyond", 1: "beyond"}),
        ("cpu/inductor", {0: "unjudged", 1: "unjudged"}),
    ],
)
def test_a_study_runs_both_sides_again_and_has_samples_in_danger(platform: str, verdicts: dict[int, str]) -> None:
    boxes = np.asarray([[box(15), box(10)], [box(30), box(10)]], np.float32)
    scores = np.asarray([[[9], [8]], [[9], [5 + 1e-6]]], np.float32)
    truths = tuple(Truth(number, (0,), (0.0, 0.0, 1.0, 1.0)) for number in (0, 1))
    examples = Examples(truths, (boxes, scores), (), False)
    with torch.no_grad():
        graph = capture(Suppressing(), (torch.from_numpy(boxes), torch.from_numpy(scores)))
    home, column = ComparedForm("", "cpu/eager"), ComparedForm("", platform)
    found = TaskResult("m", "d", "detection", (), (home, column))
    found.truths = {each.sample: each for each in truths}
    pool: Any = Detector()
    client: Any = SimpleNamespace(read=lambda start, count: examples)
    unused: Any = None
    form = ModelForm("", "model", graph)
    given = [ColumnRunner(form, each, pool, unused, 60.0).outputs(examples.inputs) for each in (home, column)]
    for each, outputs in zip((home, column), given, strict=True):
        predicted = predictions_of("detection", outputs, given[0], truths)
        found.predictions[each] = {one.sample: one for one in predicted}
    run = TaskRun(
        {"": form}, found.columns, client, pool, unused, unused, TaskSettings(origins=0), lambda *_: None, "m",
        {0: read_digest(examples)},
    )  # fmt: skip
    FlipSearch(run, found, default_tensor_store()).search()
    assert {flip.sample: flip.verdict for flip in found.flips} == verdicts
    if platform == "cpu/inductor":
        assert all("cpu/inductor: it gives another answer each time" in flip.note for flip in found.flips)
    assert {tie.sample: tie.in_danger for tie in found.near_ties} == {0: False, 1: True}
    rows = {facts["form"]: (facts["examined"], facts["in_danger"], facts["sample"]) for facts in danger_facts(found)}
    assert rows == {"the model": (2, 1, 1)} and found.near_ties[0].what.startswith("score of box")
