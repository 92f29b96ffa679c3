"""Smoke tests of PyTorch's switches: each is set, read back, and put back."""

from __future__ import annotations

import pytest
import torch

from mindgap.aten.torch_private import switches


@pytest.mark.parametrize("library", ["cuda", "mkldnn"])
@pytest.mark.parametrize("operation", ["matmul", "conv", "rnn"])
def test_precision(library: str, operation: str) -> None:
    before = switches.fp32_precision(library, operation)
    switches.set_fp32_precision(library, operation, "ieee")
    assert switches.fp32_precision(library, operation) == "ieee"
    switches.set_fp32_precision(library, operation, before)


def test_onednn() -> None:
    before = switches.onednn_enabled()
    switches.set_onednn_enabled(not before)
    assert switches.onednn_enabled() is not before
    switches.set_onednn_enabled(before)


@pytest.mark.parametrize(
    ("pair", "name"),
    [(switches.cudnn_switch, name) for name in ("enabled", "benchmark", "deterministic")]
    + [(switches.attention_switch, name) for name in ("math", "flash", "mem_efficient", "cudnn", "overrideable")],
)
def test_a_pair_of_getter_and_setter(pair: object, name: str) -> None:
    read, write = pair(name)  # type: ignore[operator]
    before = read()
    write(not before)
    assert read() is not before
    write(before)


def test_torchscript() -> None:
    switches.use_profiling_executor()
    assert isinstance(switches.torchscript_fuses_on_cpu(), bool)


def test_torchscript_optimisation() -> None:
    switches.optimise_torchscript(False)
    assert not torch._C._get_graph_executor_optimize()
    switches.optimise_torchscript(True)
    assert torch._C._get_graph_executor_optimize()
