"""Smoke tests of PyTorch's own test suite as a source of samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from mindgap.aten.torch_private.operator_tests import call_without_seeds, module_descriptions, operator_descriptions
from mindgap_studies.porting_runs.isolated_call import CallLimits, run_isolated


def test_operators_have_samples() -> None:
    found = {info.name: info for info in operator_descriptions()}
    sample = next(iter(found["add"].sample_inputs("cpu", torch.float32)))
    assert isinstance(sample.input, torch.Tensor)
    assert torch.float32 in found["add"].supported_dtypes("cpu")


def test_modules_have_samples() -> None:
    found = {info.module_cls: info for info in module_descriptions()}
    made = found[torch.nn.Linear].module_inputs_func(
        found[torch.nn.Linear], device="cpu", dtype=torch.float32, requires_grad=False, training=False
    )
    assert made[0].constructor_input.args


def test_flags_of_backends_stay_mutable() -> None:
    operator_descriptions()
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = before


def test_random_functions_can_be_called_without_the_seed_of_the_suite() -> None:
    randn = next(each for each in operator_descriptions() if each.name == "randn")

    def drawn(tell: Callable[[Mapping[str, Any]], None]) -> None:
        before = torch.equal(randn.op(3), randn.op(3))
        call_without_seeds()
        tell({"before": before, "after": torch.equal(randn.op(3), randn.op(3))})

    # In a process of its own: the suite's samples stay as they are here.
    assert run_isolated(drawn, CallLimits()).told == [{"before": True, "after": False}]
