"""Advice is followed: what it names is done, and the finding or the refusal is gone."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

import pytest
import torch

from mindgap.findings.allowed import mark_allowed
from mindgap.graph import MindgapError
from mindgap.graph.compare.culprit import DtypePolicy, SubmoduleCulprit, culprit_of
from mindgap.graph.compare.reason import Reason
from mindgap.graph.compare.verdict import Fault
from mindgap.graph_capture import capture
from mindgap.platforms.name import parse
from mindgap.results.advice import advised
from mindgap.results.rows import OwnPath, Row
from mindgap.workflows.diff import Session
from report.report_sample import sample

BFLOAT16 = DtypePolicy("float32", "bfloat16", products=True)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with Session() as opened:
        yield opened


def policy_row(platform: str, policy: DtypePolicy = BFLOAT16) -> Row:
    return advised(Row("m", parse(platform), "ok", "reduced_precision", {}, policy, "platform"))


def linear() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(32, 32).eval()


def test_another_option_is_named_beside_those_of_the_platform() -> None:
    advice = policy_row("openvino/cpu@threads=1").advice
    assert advice == (
        "compare openvino/cpu@precision=f32,threads=1 instead: it computes in float32; a deployment sets "
        "INFERENCE_PRECISION_HINT=f32; to accept it: --allow 'openvino/cpu@threads=1: float32 products in bfloat16'"
    )
    assert policy_row("openvino/cpu@precision=f32").advice.startswith("to accept it: ")


def test_nothing_is_advised_where_nothing_is_known() -> None:
    assert policy_row("openvino/cpu", DtypePolicy("int8", "int8")).advice.startswith("to accept it: ")
    assert policy_row("gone/cpu").advice.startswith("to accept it: ")
    assert advised(Row("m", parse("cpu/jit"), "ok", "rounding")).advice == ""
    wrong = Row("m", parse("cpu/jit"), "ok", "discrepant", {}, culprit_of(1, "aten.sin.default"), "platform")
    assert advised(wrong).advice == ""


@pytest.mark.parametrize("policy", [BFLOAT16, DtypePolicy("int8", "int8"), DtypePolicy("float64", "float32")])
def test_a_policy_is_accepted_by_the_line_that_is_advised(policy: DtypePolicy) -> None:
    row = policy_row("openvino/cpu@threads=1", policy)
    (line,) = re.findall("--allow '(.*)'", row.advice)
    report = dataclasses.replace(sample(), rows=(row,))
    assert report.totals.new == 1 and mark_allowed(report, [line])[0].totals.new == 0


def test_each_fault_has_its_own_and_a_known_work_around_stays() -> None:
    op = culprit_of(1, "aten.sin.default")
    faults = (Fault(BFLOAT16, "reduced_precision"), Fault(op, "discrepant", advice="pad by hand"))
    row = advised(Row("m", parse("openvino/cpu"), "ok", "reduced_precision", {}, BFLOAT16, faults=faults))
    first, second = row.by_fault
    assert first.advice == row.advice and first.advice.startswith("compare openvino/cpu@precision=f32")
    assert second.advice == "pad by hand"


def test_what_was_asked_for_is_left_out(session: Session) -> None:
    (row,) = session.diff(
        linear(), (torch.randn(4, 32),), platforms=["cpu/eager@autocast=bfloat16"], own_path=False
    ).rows
    assert row.verdict == "reduced_precision" and row.advice.startswith("autocast=bfloat16 asks for it: leave it out")
    assert row.faults[0].advice == row.advice
    (row,) = session.diff(linear(), (torch.randn(4, 32),), platforms=["cpu/eager"], own_path=False).rows
    assert row.verdict == "identical" and row.advice == ""


@pytest.mark.nightly
def test_a_refusals_alternative_runs(session: Session) -> None:
    def spectrum(x: torch.Tensor) -> torch.Tensor:
        return torch.fft.fft(x).abs()

    (row,) = session.diff(spectrum, (torch.randn(8, 8),), platforms=["openvino/cpu"], own_path=False).rows
    assert row.status == "unsupported"
    (other,) = re.findall(r"openvino/cpu@\S+", row.advice)
    (row,) = session.diff(spectrum, (torch.randn(8, 8),), platforms=[other], own_path=False).rows
    assert row.status == "ok" and not row.finding


@pytest.mark.nightly
def test_a_dtype_that_a_platform_lacks(session: Session) -> None:
    wide = linear().double()
    (row,) = session.diff(
        wide, (torch.randn(4, 32).double(),), platforms=["openvino/cpu@precision=f32"], own_path=False
    ).rows
    assert row.culprit == DtypePolicy("float64", "float32") and "model.float()" in row.advice
    (row,) = session.diff(
        wide.float(), (torch.randn(4, 32),), platforms=["openvino/cpu@precision=f32"], own_path=False
    ).rows
    assert not row.finding


@pytest.mark.nightly
def test_openvinos_bfloat16(session: Session) -> None:
    (row,) = session.diff(linear(), (torch.randn(4, 32),), platforms=["openvino/cpu"], own_path=False).rows
    if row.culprit != BFLOAT16:
        pytest.skip(f"OpenVINO computes float32 as declared on this processor: {row.verdict}")
    (other,) = re.findall(r"openvino/cpu@[\w=,]+", row.advice)
    (row,) = session.diff(linear(), (torch.randn(4, 32),), platforms=[other], own_path=False).rows
    assert not row.finding


def test_modules_in_training_mode_are_named() -> None:
    training = tuple(f"bn{number}" for number in range(8))
    found = Row("m", parse("onnxruntime/cpu"), "ok", "export", own_path=OwnPath("differs", training=training))
    assert advised(found).advice == (
        "call .eval() if the model is deployed so (in training mode: bn0, bn1, bn2, bn3, bn4, bn5 and 2 more)"
    )
    assert advised(dataclasses.replace(found, verdict="rounding")).advice == ""


@pytest.mark.nightly
def test_eval_ends_what_training_mode_brings(session: Session) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
    (row,) = session.diff(model, (torch.randn(2, 3, 16, 16),), platforms=["onnxruntime/cpu"], own_path=False).rows
    assert row.finding
    (row,) = session.diff(
        model.eval(), (torch.randn(2, 3, 16, 16),), platforms=["onnxruntime/cpu"], own_path=False
    ).rows
    assert not row.finding


def test_weights_on_the_meta_device() -> None:
    """The message names an option of the Python API that no command line has no more; what it names works."""
    with torch.device("meta"):
        module = torch.nn.Linear(4, 4)
    with pytest.raises(MindgapError, match=r"module.to_empty\(device=\"cpu\"\)") as raised:
        capture(module, (torch.randn(2, 4, device="meta"),))
    assert "weights=" not in str(raised.value)
    module.to_empty(device="cpu").reset_parameters()
    assert capture(module, (torch.randn(2, 4),)).nodes


def test_non_finite_outputs_are_counted(session: Session) -> None:
    def division(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x / 0.0, torch.log(x)

    report = session.diff(division, (torch.tensor([-1.0, 1.0, 2.0]),), platforms=["cpu/jit"], own_path=False)
    (row,) = report.rows
    assert row.verdict == "identical" and not report.finite
    counts = [(each.output, each.count, each.elements) for each in row.non_finite]
    assert counts == [(0, 3, 3), (1, 1, 3)] and report.models[0].non_finite == row.non_finite


def test_the_message_of_a_failed_export_comes_before_what_the_program_asks() -> None:
    """Libraries ask how they are run in every model: that is no cause of a size that data decides."""
    reasons = (
        Reason("tensor_value"),
        Reason("environment_question", names=("torch.jit.is_tracing() at a (net.py:3)",)),
    )
    culprit = SubmoduleCulprit("a", "a (net.py:5)")
    advice = {
        verdict: advised(Row("m", "onnxruntime/cpu", "ok", verdict, faults=(Fault(culprit, verdict, reasons=reasons),)))
        .faults[0]
        .advice
        for verdict in ("failed", "export")
    }
    assert advice["failed"].startswith("compute with tensors") and advice["export"].startswith("leave the branch out")
