"""Which operators only a backward pass calls, measured on PyTorch's samples."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from mindgap.aten.operators import CALLED_FORWARD, is_gradient_operator


class _Calls(TorchDispatchMode):
    """Records the packets of all operators that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.packets: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[override]
        self.packets.add(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def _samples(info: Any) -> Iterator[Any]:
    """Up to eight samples of float32, and of complex64."""
    for dtype in (torch.float32, torch.complex64):
        if info.supports_dtype(dtype, "cpu"):
            yield from itertools.islice(info.sample_inputs("cpu", dtype), 8)


@pytest.mark.nightly
def test_no_public_forward_function_calls_one_but_those_listed() -> None:
    pytest.importorskip("expecttest")
    from mindgap.aten.torch_private.operator_tests import operator_descriptions

    calls, functions = _Calls(), 0
    for info in operator_descriptions():
        # Samples of operators themselves are no public functions.
        if info.name.startswith(("_", "jiterator")) or "_backward" in info.name:
            continue
        for sample in _samples(info):
            try:
                with torch.no_grad(), calls:
                    info(sample.input, *sample.args, **sample.kwargs)
            except (RuntimeError, NotImplementedError, ValueError, TypeError):
                continue  # Samples of errors, and what needs another build.
            functions += 1
    assert functions > 1500
    called = {packet for packet in calls.packets if "_backward" in packet}
    assert called == CALLED_FORWARD


def test_by_name() -> None:
    assert is_gradient_operator("aten.tanh_backward.default")
    assert is_gradient_operator("aten._softmax_backward_data.default")
    assert not is_gradient_operator("aten.unfold_backward.default")
    assert not is_gradient_operator("aten._native_batch_norm_legit.default")
