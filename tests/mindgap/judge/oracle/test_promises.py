"""The accuracy that a platform's language promises: within it is calm, beyond it is a finding."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from judge.oracle.bench import PLATFORM, Bench, build, normal, wrong_at
from mindgap.judge.oracle.bounds.promises import promised_by
from mindgap.judge.pipeline.comparison import by_promise

#: WGSL lets `sin` be wrong by 2⁻¹¹ between -π and π, and `exp` by 3 + 2·|x| ULP.
ALLOWED = 2.0**-11


def judged(op: str, error: float, accuracy: str, *, relative: bool = False, scale: float = 1.0):
    """One operator, whose results are off by so much."""
    arrays = [np.clip(normal(6, 24) * scale, -3, 3).astype(np.float32)]
    graph = build(arrays, [("y", f"aten.{op}.default", "i0"), ("z", "aten.mul.Tensor", "y", "y")], ["y", "z"])
    fault = wrong_at(op, lambda x: x * (1 + error) if relative else x + error)
    return Bench({PLATFORM: fault}).judge(graph, arrays, accuracy=accuracy)


def test_sin_within_the_promise_of_wgsl_is_calm() -> None:
    usual, promised = (judged("sin", 0.4 * ALLOWED, language) for language in ("", "WGSL"))
    assert (usual.verdict, usual.blame) == ("reduced_precision", "platform")
    assert promised.verdict == "rounding" and not promised.faults
    said = by_promise(usual, promised, "WGSL")
    assert said.verdict == "rounding"
    assert said.detail.startswith("beyond the usual bounds, within the accuracy that WGSL promises: sin(")


def test_sin_beyond_the_promise_of_wgsl_is_a_finding() -> None:
    usual, promised = (judged("sin", 4 * ALLOWED, language) for language in ("", "WGSL"))
    assert promised.blame == "platform" and promised.culprit is not None and promised.culprit.op == "aten.sin.default"
    assert by_promise(usual, promised, "WGSL") is promised


def test_sinc_inherits_the_promise_of_sin() -> None:
    usual, promised = (judged("sinc", 0.1 * ALLOWED, language) for language in ("", "WGSL"))
    assert usual.blame == "platform" and promised.verdict == "rounding" and not promised.faults
    assert judged("sinc", 400 * ALLOWED, "WGSL").blame == "platform"


@pytest.mark.parametrize(("error", "calm"), [(0.4, True), (40.0, False)])
def test_polar_inherits_the_promise_of_cos_and_sin(error: float, calm: bool) -> None:
    arrays = [np.abs(normal(4, 6)) + 1, np.clip(normal(4, 6), -3, 3).astype(np.float32)]
    graph = build(arrays, [("y", "aten.polar.default", "i0", "i1"), ("z", "aten.view_as_real.default", "y")], ["z"])
    fault = wrong_at("polar", lambda x: x * (1 + error * ALLOWED))
    usual, promised = (Bench({PLATFORM: fault}).judge(graph, arrays, accuracy=each) for each in ("", "WGSL"))
    assert usual.blame == "platform" and (promised.verdict == "rounding") == calm
    assert (promised.blame == "platform") != calm


def test_exp_is_judged_by_its_operand() -> None:
    allowed = 3 * 2.0**-23  # at 0; more further away
    assert judged("exp", 0.9 * allowed, "WGSL", relative=True).verdict == "rounding"
    assert judged("exp", 64 * allowed, "WGSL", relative=True).verdict != "rounding"


def test_opencl_c_promises_less_error_than_wgsl() -> None:
    # 4 ULP of sin: 2⁻¹¹ is far beyond, and pow may be wrong by 16.
    assert judged("sin", 0.4 * ALLOWED, "OpenCL C").blame == "platform"
    for op, ulps in (("sin", 3.9), ("exp", 2.9), ("tanh", 4.9)):
        assert judged(op, ulps * 2.0**-24, "OpenCL C", relative=True).verdict == "rounding"
    found = judged("erf", 12 * 2.0**-24, "OpenCL C", relative=True)
    assert (found.verdict, judged("erf", 64 * 2.0**-23, "OpenCL C", relative=True).blame) == ("rounding", "platform")


def test_an_operator_of_which_nothing_is_promised_is_judged_as_usual() -> None:
    assert judged("erf", 0.4 * ALLOWED, "WGSL").blame == "platform"


def test_a_language_without_a_table_is_an_error() -> None:
    with pytest.raises(KeyError), promised_by("BASIC"):
        torch.sin(torch.ones(1))
