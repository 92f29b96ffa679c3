"""Verdicts of flips on results that are made by hand: what the form gives on the reference decides."""

from __future__ import annotations

import io
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from mindgap.cli.streams import Exit
from mindgap.graph import default_tensor_store
from mindgap.graph_capture import capture
from mindgap_studies.cli.study_task import _status
from mindgap_studies.report.task_page import task_page
from mindgap_studies.results.predictions import NOT_FINITE, ComparedForm, Flip, Prediction, TaskResult, Truth
from mindgap_studies.task.study import answer_rows, column_facts
from mindgap_studies.task_runs.columns import ModelForm
from mindgap_studies.task_runs.dataset_client import Examples
from mindgap_studies.task_runs.flips import FlipSearch, flips_of
from mindgap_studies.task_runs.near_ties import exact_outputs, narrow_arithmetic
from mindgap_studies.task_runs.running import TaskRun, TaskSettings, read_digest
from mindgap_surveys.cli.study_text import print_page
from mindgap_surveys.report.answer_page import answer_junit

BATCH = 2
INPUTS = np.eye(3, dtype=np.float32)[[0, 1, 2, 0]]


class Reader:
    """A dataset of four samples, which counts its readings. `moved` is added to the inputs."""

    def __init__(self) -> None:
        self.reads: list[int] = []
        self.moved = 0.0

    def read(self, start: int, count: int) -> Examples:
        self.reads.append(start)
        places = range(start, start + count)
        truths = tuple(Truth(n, (n % 3,)) for n in places)
        return Examples(truths, (INPUTS[start : start + count] + np.float32(self.moved),), (), False)


@pytest.fixture(scope="module")
def forms() -> dict[str, ModelForm]:
    model = torch.nn.Linear(3, 3, bias=False).eval()
    torch.nn.init.eye_(model.weight)
    with torch.no_grad():
        graph = capture(model, (torch.zeros(BATCH, 3),))
    return {name: ModelForm(name, name or "model", graph) for name in ("", "int8")}


def searched(
    forms: dict[str, ModelForm],
    labels: dict[ComparedForm, list[int]],
    near: int = 0,
    moved: float = 0.0,
    described: dict[str, Any] | None = None,
) -> tuple[TaskResult, Reader]:
    """Judges columns with these labels of four samples. The first is the reference."""
    found = TaskResult("m", "d.py:f", "classification", (), tuple(labels))
    found.truths = {n: Truth(n, (n % 3,)) for n in range(4)}
    for column, given in labels.items():
        found.predictions[column] = {
            n: Prediction(n, (label,) if label == NOT_FINITE else (label, (label + 1) % 3), 1.0 - n / 10)
            for n, label in enumerate(given)
        }
    reader = Reader()
    unused: Any = None
    client: Any = reader
    pool: Any = SimpleNamespace(describe=lambda name: described or {})
    own = {name: forms[name] for name in dict.fromkeys(each.form for each in labels)}
    run = TaskRun(
        own, found.columns, client, pool, unused, unused, TaskSettings(near=near, origins=0),
        lambda *_: None, "m", {start: read_digest(reader.read(start, BATCH)) for start in (0, 2)},
    )  # fmt: skip
    reader.reads, reader.moved = [], moved
    FlipSearch(run, found, default_tensor_store()).search()
    return found, reader


HOME, EAGER = ComparedForm("", "cpu/eager"), ComparedForm("int8", "cpu/eager")
FILE = ComparedForm("int8", "onnxruntime/cpu", "int8.onnx")
RIGHT = [0, 1, 2, 0]


def test_a_file_that_flips_alone_is_no_other_form(forms) -> None:
    found, _ = searched(forms, {HOME: RIGHT, EAGER: [0, 1, 2, 2], FILE: [1, 1, 2, 2]})
    flips = {(flip.column, flip.sample): flip for flip in found.flips}
    assert flips[EAGER.name, 3].verdict == flips[FILE.name, 3].verdict == "other form"
    # The form's graph gives 0 on the reference, and its exact outputs are 1 apart.
    alone = flips[FILE.name, 0]
    assert alone.verdict == "unjudged" and alone.margin == 1 and "which of them errs is not known" in alone.note


def test_a_form_that_does_not_run_on_the_reference_is_unjudged(forms) -> None:
    found, _ = searched(forms, {HOME: RIGHT, EAGER: [], FILE: [1, 1, 2, 0]})
    (flip,) = found.flips
    assert flip.verdict == "unjudged" and "int8 on cpu/eager did not run" in flip.note


def test_near_ties_of_a_file_on_the_reference_are_looked_at(forms) -> None:
    home, file = ComparedForm("", "onnxruntime/cpu"), FILE
    found, _ = searched(forms, {home: RIGHT, file: RIGHT}, near=4)
    assert [(tie.form, tie.sample) for tie in found.near_ties] == [(f, n) for f in ("", "int8") for n in (3, 2, 1, 0)]


def test_batches_are_read_in_their_order_and_evaluated_once(forms, monkeypatch) -> None:
    from mindgap_studies.task_runs import flips as module

    evaluated: list[str] = []

    def counted(form: ModelForm, *rest: Any) -> Any:
        evaluated.append(form.name)
        return real(form, *rest)

    real = module.exact_outputs
    monkeypatch.setattr(module, "exact_outputs", counted)
    columns = {HOME: RIGHT, **{ComparedForm("", name): [1, 1, 2, 1] for name in ("cpu/jit", "openvino/cpu")}}
    found, reader = searched(forms, columns)
    assert evaluated == ["", ""] and len(found.flips) == 4 and {flip.verdict for flip in found.flips} == {"beyond"}
    assert reader.reads == [0, 2, 0, 2]  # flips, then pictures
    evaluated.clear()
    found, reader = searched(forms, {HOME: RIGHT}, near=3)
    assert reader.reads == [0, 2] and [tie.sample for tie in found.near_ties[:3]] == [3, 2, 1]


def test_a_dataset_that_changes_is_not_judged(forms) -> None:
    column = ComparedForm("", "cpu/jit")
    found, _ = searched(forms, {HOME: RIGHT, column: [1, 1, 2, 0]}, near=2, moved=0.5)
    (flip,) = found.flips
    assert flip.verdict == "unjudged" and "other samples came when it was read again" in flip.note
    assert not found.near_ties and not found.pictures and any("read again" in note for note in found.notes)


def test_nan_is_beyond_rounding_and_a_finding(forms, capsys: pytest.CaptureFixture[str]) -> None:
    column = ComparedForm("", "cpu/jit")
    found, _ = searched(forms, {HOME: RIGHT, column: [0, NOT_FINITE, 2, 0]})
    (flip,) = found.flips
    assert (flip.sample, flip.after, flip.verdict) == (1, NOT_FINITE, "beyond")
    assert _status(found, None) == Exit.FINDINGS
    said = "cpu/jit: 1 flips are beyond rounding; outputs of 1 samples have NaN or infinities"
    assert said in capsys.readouterr().err
    (facts,) = [column_facts(found, each) for each in found.columns if each == column]
    assert (facts["top1_error_share"], facts["lost"], facts["ece"]) == (0.25, 1, None)
    print_page(task_page(found), out := io.StringIO())
    assert "1 became NaN or infinities" in out.getvalue()
    # The form overflows on the reference too.
    found, _ = searched(forms, {HOME: RIGHT, EAGER: [0, -1, 2, 0], ComparedForm("int8", "cpu/jit"): [0, -1, 2, 0]})
    assert {flip.verdict for flip in found.flips} == {"other form"}


FLOAT16 = {"dtypes": {"float32": {"computes_in": "float16", "returns": "float32"}}}
BFLOAT16_PRODUCTS = {"dtypes": {"float32": {"computes_in": "float32", "matmul_in": "bfloat16", "returns": "float32"}}}


@pytest.mark.parametrize(
    ("described", "verdict", "note"),
    [
        ({}, "beyond", ""),
        (FLOAT16, "beyond", "the platform computes float32 in float16, which does not explain it"),
        ({"quantised": "int8"}, "unjudged", "the platform quantises the model (int8): how far that moves outputs"),
    ],
)
def test_what_a_platform_of_fewer_bits_may_flip(
    forms: dict[str, ModelForm], described: dict[str, Any], verdict: str, note: str
) -> None:
    """The exact outputs of the labels are 1 apart, and rounding to float16 moves each by less than 1e-2."""
    found, _ = searched(forms, {HOME: RIGHT, ComparedForm("", "cpu/jit"): [1, 1, 2, 0]}, described=described)
    (flip,) = found.flips
    assert flip.verdict == verdict and note in flip.note
    assert _status(found, None) == (Exit.FINDINGS if verdict == "beyond" else Exit.NOTHING_FOUND)


def test_rounding_of_fewer_bits_explains_a_flip() -> None:
    model = torch.nn.Linear(64, 2, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.ones(2, 64))
        model.weight[1, 0] += 1e-2
        graph = capture(model, (torch.ones(BATCH, 64),))
    form, column = ModelForm("", "model", graph), ComparedForm("", "cpu/jit")
    exact = exact_outputs(form, [np.ones((BATCH, 64), np.float32)], default_tensor_store())
    margin, limit = exact.between((0,), 0, 1)
    assert limit < margin == pytest.approx(1e-2, rel=1e-3)
    found = TaskResult("m", "d", "classification", (), (HOME, column))
    flip = Flip(column.name, 0, 0, 0, 0, 1, "unjudged", margin, limit)
    for described, growth, usual, verdict in (
        (FLOAT16, 2**13, 50.0, "reduced precision"),
        (BFLOAT16_PRODUCTS, 2**16, 500.0, "reduced precision"),
        (BFLOAT16_PRODUCTS, 2**16, 50.0, "unjudged"),  # the limits cover usual margins
        ({}, None, 50.0, "beyond"),
    ):
        narrow = narrow_arithmetic(described, form)
        assert (narrow and narrow.growth) == growth
        found.predictions = {HOME: {0: Prediction(0, (0, 1), usual)}}
        run: Any = SimpleNamespace(forms={"": form}, pool=SimpleNamespace(describe=lambda _, it=described: it))
        judged = FlipSearch(run, found, default_tensor_store())._beyond(column, flip, exact)
        assert (judged.verdict, judged.margin) == (verdict, margin)


def test_a_report_for_ci_has_a_case_for_each_column_and_one_for_samples() -> None:
    import xml.etree.ElementTree as ET

    found = TaskResult("m", "d", "classification", (), (HOME, EAGER, FILE))
    found.truths = {0: Truth(0, (0,)), 1: Truth(1, (0,))}
    found.predictions = {each: {n: Prediction(n, (0, 1), 1.0, 0.9, 0.1) for n in (0, 1)} for each in (HOME, EAGER)}
    found.failures, found.problems = {FILE: "no such operator"}, {2: "label 7 is out of range"}
    found.flips = [Flip(EAGER.name, 0, 0, 0, 0, 1, "other form")]
    for limit, wrong in ((None, 0), (1, 0), (0, 1)):
        suites = ET.fromstring(answer_junit(answer_rows(found, limit)))
        assert [suites.get(name) for name in ("tests", "failures", "errors")] == ["4", str(wrong), "2"]
        assert _status(found, limit) == (Exit.FINDINGS if wrong else Exit.WRONG_USE)
    errors = [each.get("message", "") for each in suites.iter("error")]
    assert "no such operator" in errors[0] and "all samples are of one class" in errors[1] and "label 7" in errors[1]


def test_a_form_of_a_detector_is_compared_with_itself_on_the_reference() -> None:
    box, there = (0.0, 0.0, 10.0, 10.0), Prediction(0, (1,), boxes=(0.0, 0.0, 10.0, 10.0), scores=(0.9,))
    other, none = replace(there, labels=(2,)), Prediction(0, (NOT_FINITE,), boxes=box, scores=(0.0,))
    found = TaskResult("m", "d", "detection", (), (HOME, EAGER, FILE, replace(FILE, platform="cpu/jit")))
    for column, one in zip(found.columns, (there, other, other, none), strict=True):
        found.predictions[column] = {0: one}
    found.truths = {0: Truth(0, (1,), box)}
    run: Any = SimpleNamespace(
        forms={"": SimpleNamespace(batch=1)}, settings=TaskSettings(origins=0), client=None, tell=None, digests={}
    )
    search = FlipSearch(run, found, default_tensor_store())
    verdicts = [search._judged(column, next(flips_of(found, column))).verdict for column in found.columns[1:]]
    assert verdicts == ["other form", "other form", "unjudged"]


def test_flips_beyond_rounding_are_findings() -> None:
    found = TaskResult("m", "d", "classification", (), (HOME, FILE))
    found.truths = {0: Truth(0, (0,)), 1: Truth(1, (1,))}
    found.predictions = {each: {n: Prediction(n, (n,), 0.5, 0.75, 0.3) for n in (0, 1)} for each in (HOME, FILE)}
    found.flips = [Flip(FILE.name, 0, 0, 0, 0, 1, "other form")]
    assert _status(found, None) == Exit.NOTHING_FOUND
    found.flips = [Flip(FILE.name, 0, 0, 0, 0, 1, "beyond")]
    assert _status(found, None) == Exit.FINDINGS


def test_a_detection_without_a_true_box_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    from mindgap_studies.task.detection import coco_precision

    found = TaskResult("m", "d", "detection", (), (HOME,))
    found.truths = {0: Truth(0, ())}
    assert _status(found, None) == Exit.WRONG_USE and "no sample has a true box" in capsys.readouterr().err
    assert coco_precision({0: Prediction(0, (1,), boxes=(0.0, 0, 1, 1), scores=(0.9,))}, found.truths) is None
