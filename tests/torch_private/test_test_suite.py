"""Smoke tests of PyTorch's own test suite as a source of samples."""

from __future__ import annotations

import torch

from mindgap.aten.torch_private.test_suite import module_descriptions, operator_descriptions


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
