"""Smoke tests of PyTorch's decompositions and references."""

from __future__ import annotations

import torch

from mindgap.aten.torch_private.overloads import decomposition_of, reference_of


def test_an_operator_is_decomposed() -> None:
    silu = decomposition_of(torch.ops.aten.silu.default)
    x = torch.randn(5)
    assert silu is not None and torch.allclose(silu(x), torch.nn.functional.silu(x))


def test_convolution_has_no_decomposition() -> None:
    assert decomposition_of(torch.ops.aten.conv2d.default) is None


def test_references_are_found_among_tensor_and_module_functions() -> None:
    x = torch.randn(2, 5)
    hypot, softplus = reference_of("hypot"), reference_of("softplus")
    assert hypot is not None and torch.allclose(hypot(x, x), torch.hypot(x, x))
    assert softplus is not None and torch.allclose(softplus(x), torch.nn.functional.softplus(x))
    assert reference_of("no_such_operator") is None
