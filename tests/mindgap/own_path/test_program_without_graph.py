"""A program that cannot be captured: its own export is compared with eager mode; a file without a translation: its
runs are compared with each other."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise

import numpy as np
import pytest

from mindgap.graph.compare.reason import Reason, has
from mindgap.graph.compare.verdict import Fault
from mindgap.judge.pipeline.file_rows import rows_of_file
from mindgap.judge.pipeline.own_path_alone import row_without_graph
from mindgap.judge.pipeline.own_path_reasons import submodule_culprit
from mindgap.own_path.runs import FileChanges, Located, OwnRun, Sensitivity
from mindgap.platforms.name import parse
from mindgap.results.advice import _export_advice, advised
from mindgap.results.rows import Row

PLATFORM = parse("cpu/jit")
RIGHT = np.linspace(-1, 1, 8, dtype=np.float32)
RUN = OwnRun(PLATFORM, "torch.jit.trace", (RIGHT,), (RIGHT,))


def row(sensitivity: float = 0.0, exact: float = math.inf, **changes: object) -> Row:
    """The row of a run like `RUN`, in whose program submodule `peak` is at fault."""
    run = dataclasses.replace(RUN, **changes)  # pyright: ignore[reportArgumentType] # any field
    found = Located("peak", "Peak", line="model.py:4")
    return row_without_graph("m", PLATFORM, run, lambda _: found, lambda: Sensitivity(sensitivity, exact))


def off(by: float) -> tuple[np.ndarray, ...]:
    return (RIGHT + np.float32(by),)


def test_equal_bits_are_identical() -> None:
    assert row().verdict == "identical" and row().metrics["max_abs"] == 0.0


def test_a_wrong_declaration_takes_the_place_of_the_size() -> None:
    found = Located("", "Peak", line="model.py:4", declared="custom operator m::f: its fake kernel gives nothing")
    run = dataclasses.replace(RUN, outputs=off(0.5))
    got = row_without_graph("m", PLATFORM, run, lambda _: found, lambda: Sensitivity(0.0))
    assert got.detail == (
        "torch.jit.trace of the program gives other outputs than the program: "
        "custom operator m::f: its fake kernel gives nothing"
    )
    assert got.culprit is not None and got.culprit.label == "model.py:4"
    assert got.faults[0].advice.startswith("correct what the operator declares")


def test_nan_for_infinity_is_no_equal_output() -> None:
    """They were zero apart, and the row `identical`."""
    nan, infinite = np.append(RIGHT, np.float32(np.nan)), np.append(RIGHT, np.float32(np.inf))
    found = row(eager=(infinite,), outputs=(nan,))
    assert found.verdict == "export" and "NaN or infinity at other elements" in found.detail


@pytest.mark.parametrize(
    ("apart", "sensitivity", "verdict"),
    [(1e-5, 0.0, None), (0.5, 0.0, "export"), (0.5, 0.1, None), (0.5, 0.01, "export"), (0.5, math.inf, None)],
)
def test_what_rounding_of_the_arguments_does_not_reach_is_a_finding(
    apart: float, sensitivity: float, verdict: str | None
) -> None:
    found = row(sensitivity, outputs=off(apart))
    assert found.verdict == verdict and found.unjudged == (verdict is None)
    assert f"{apart:.2g} of the largest magnitude off eager mode" in found.detail
    if verdict:
        assert found.culprit is not None and found.culprit.label == "peak (model.py:4)"


@pytest.mark.parametrize(("moved", "exact"), [(1e-5, math.inf), (0.0, 1e-5), (math.inf, 1e-5)])
def test_what_eager_mode_is_from_itself_is_rounding_on_weaker_evidence(moved: float, exact: float) -> None:
    found = row(moved, exact, outputs=off(2e-5))
    assert found.verdict == "rounding" and not found.unjudged and found.own_path is not None
    assert found.own_path.status == "rounding" and [weak.missing for weak in found.weaknesses] == ["captured graph"]
    assert row(moved, exact, outputs=off(1e-4)).verdict is None


def test_random_numbers_are_not_judged_and_shapes_are() -> None:
    assert row(outputs=off(0.5), draws=True).unjudged
    assert row(outputs=(RIGHT[:4],), draws=True).verdict == "export"


def test_a_value_that_is_fixed_in_the_export_shows_on_other_arguments_and_on_later_sets() -> None:
    others = row(other_outputs=off(0.5), other_eager=(RIGHT,))
    later = row(outputs=off(0.5), first="model.py:make?arguments=1")
    for found in (others, later):
        assert found.verdict == "export" and has(found.faults[0].reasons, "fixed_value")
        assert advised(found).advice.startswith("compute with tensors")


@pytest.mark.parametrize("path", ["", "layers.0"])
def test_a_decision_by_data_that_no_line_of_the_program_makes_is_the_compilers(path: str) -> None:
    said = "torch.compile of the program failed: DataDependentOutputException: aten._local_scalar_dense.default"
    reasons = (Reason("tensor_value"),)
    for line, advice in (("m.py:9", "compute with tensors"), ("", "")):
        fault = Fault(submodule_culprit(path, line), "failed", "platform", (), said, reasons=reasons)
        assert _export_advice(fault).startswith(advice) and bool(_export_advice(fault)) == bool(line)


def test_a_failure_is_one_and_what_was_not_fed_was_not_run() -> None:
    failed = row(outputs=None, reason="RuntimeError: no", step="torch.jit.trace", line="model.py:9")
    assert failed.verdict == "failed" and "model.py:9" in failed.detail
    assert row(outputs=None, fed=False, reason="a complex argument").status == "not_run"
    assert row_without_graph("m", PLATFORM, None, lambda _: None, Sensitivity).status == "not_run"


def test_runs_of_a_file_without_a_translation_are_compared_with_each_other() -> None:
    names = [parse(f"litert/cpu@threads={n}") for n in range(1, 7)]
    run = OwnRun(names[0], "m.tflite", (RIGHT,), file=True, source_file=True)
    failed = dataclasses.replace(run, outputs=None, reason="Didn't find op")
    sign = RIGHT.copy()
    zeros = (dataclasses.replace(run, outputs=(sign * 0,)), dataclasses.replace(run, outputs=(sign * -0.0,)))
    given = {
        names[0]: failed, names[1]: run, names[2]: run, names[3]: dataclasses.replace(run, outputs=off(1e-7)),
        names[4]: dataclasses.replace(run, outputs=(RIGHT[:4],)), names[5]: None,
    }  # fmt: skip
    rows = rows_of_file("m", given, "m.tflite: no translation of operator LSTM (node y)")
    assert [row.word for row in rows] == ["unjudged", "identical", "identical", "rounding", "unjudged", "not_run"]
    assert not any(row.finding for row in rows)
    assert "fails here: Didn't find op. It runs on litert/cpu@threads=2" in rows[0].detail
    assert "gives the bits that it gives on litert/cpu@threads=3" in rows[1].detail
    assert "no translation of operator LSTM" in rows[2].detail
    assert "1.2e-07 of the largest magnitude off litert/cpu@threads=2" in rows[3].detail
    assert "other shapes or dtypes than litert/cpu@threads=2" in rows[4].detail
    assert [row.word for row in rows_of_file("m", dict(zip(names, zeros, strict=False)), "no")] == ["rounding"] * 2
    assert {row.word for row in rows_of_file("m", {names[0]: failed, names[1]: None}, "no")} == {"not_run"}
    special = [RIGHT.copy() for _ in range(3)]
    for array, one in zip(special, (np.nan, np.inf, -np.inf), strict=True):
        array[2] = one
    for ours, theirs in ((special[0], RIGHT), (RIGHT, special[1]), *pairwise(special)):
        given = {
            names[0]: dataclasses.replace(run, outputs=(theirs,)),
            names[1]: dataclasses.replace(run, outputs=(ours,)),
        }
        other = rows_of_file("m", given, "no")[1]
        assert other.word == "unjudged" and "NaN or infinity at other elements than litert" in other.detail
        assert "1 of 8" in other.detail and "shapes or dtypes" not in other.detail
    assert (
        "NaN or infinity at other elements than eager mode, or others there: 1 of 8"
        in row(outputs=(special[0],)).detail
    )
    assert "other shapes or dtypes than eager mode" in row(outputs=(RIGHT[:4],)).detail
    for others in ({}, {names[0]: failed}, {names[0]: None}):
        alone = rows_of_file("m", {**others, names[1]: run}, "no")[-1]
        assert alone.word == "unjudged" and "No second platform ran it" in alone.detail
    witness = {parse("onnx/reference"): dataclasses.replace(run, outputs=off(1e-7))}
    assert rows_of_file("m", {names[1]: run}, "no", witness)[0].word == "rounding"
    # That a valid file fails is the platform's where the evaluator runs it; a runtime may forgive an invalid one.
    (fails,) = rows_of_file("m", {names[0]: failed}, "no", witness)
    assert (fails.word, fails.blame) == ("failed", "platform") and "Didn't find op. It runs on onnx" in fails.detail
    assert rows_of_file("m", {names[0]: failed}, "no", witness, valid=False)[0].word == "unjudged"


def test_what_could_not_be_examined_is_weaker_evidence() -> None:
    run = dataclasses.replace(RUN, outputs=off(0.5))
    found = Located("", "Peak", unchecked="TypeError: no mode", changes=FileChanges(reason="DecodeError: not read"))
    got = row_without_graph("m", PLATFORM, run, lambda _: found, lambda: Sensitivity(0.0))
    assert [(each.missing, each.reason.partition(": ")[2]) for each in got.weaknesses] == [
        ("declarations", "TypeError: no mode"), ("old file", "DecodeError: not read"),
    ]  # fmt: skip
