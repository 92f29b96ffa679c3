"""What cannot be captured is refused with the reason and the line of the program."""

from __future__ import annotations

import inspect
import io
import itertools
import random
import sys
import time
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mindgap.aten.torch_private import process_state
from mindgap.graph import MindgapError
from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import CaptureError, capture

X = torch.arange(32.0).reshape(4, 8) / 8 - 1.5
COUNT = itertools.count()
BUFFER = np.ones(8, np.float32)
SAVED = io.BytesIO()
torch.save(torch.ones(8), SAVED)


def reads_a_value(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y * y.sum().item()  # here


def decides_by_a_value(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:  # here
        return x
    return -x


def decides_by_a_parameter() -> Any:
    layer = nn.Linear(8, 8)
    return lambda x: layer(x) if layer.weight.mean() > 5 else x


def compares_tensors(x: torch.Tensor) -> torch.Tensor:
    return x if torch.equal(x, x + 0) else -x  # here


def through_numpy(x: torch.Tensor) -> torch.Tensor:
    doubled = x.numpy() * 2  # here
    return x + torch.from_numpy(doubled)


def through_a_list(x: torch.Tensor) -> torch.Tensor:
    return x * torch.tensor(x.tolist())  # here


def selects_by_data(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]  # here


def finds_nonzero(x: torch.Tensor) -> torch.Tensor:
    return torch.nonzero(x)  # here


def draws_poisson(x: torch.Tensor) -> torch.Tensor:
    return torch.poisson(x.abs())  # here


def uses_a_sparse_tensor(x: torch.Tensor) -> torch.Tensor:
    return torch.sparse.mm(x.to_sparse(), x.t())  # here


def names_a_device(x: torch.Tensor) -> torch.Tensor:
    return x + torch.zeros(8, device="meta").to("cpu")  # here


def loads_a_file(x: torch.Tensor) -> torch.Tensor:
    return x + torch.load(io.BytesIO(SAVED.getvalue()))  # here


def runs_backward(x: torch.Tensor) -> torch.Tensor:
    y = x.detach().requires_grad_()
    (y**2).sum().backward()  # here
    return y.grad


def fails_by_itself(x: torch.Tensor) -> torch.Tensor:
    return x @ x  # here


@pytest.mark.parametrize(("program", "reason"), [
    (reads_a_value, "reads a value"), (decides_by_a_value, "reads a value"), (compares_tensors, "reads a value"),
    (through_numpy, "numpy"), (through_a_list, "list|reads a value"),
    (selects_by_data, "size of what aten.index.Tensor"), (finds_nonzero, "size of what aten.nonzero"),
    (draws_poisson, "aten.poisson"), (uses_a_sparse_tensor, "sparse"), (names_a_device, "device meta"),
    (loads_a_file, "device meta: a tensor without values; call torch.load before"),
    (runs_backward, "backward"), (fails_by_itself, "the program itself raises RuntimeError"),
])  # fmt: skip
def test_the_reason_and_the_line_are_named(program: Any, reason: str, store: TensorStore) -> None:
    source, first = inspect.getsourcelines(program)
    line = first + next(i for i, text in enumerate(source) if "# here" in text)
    with pytest.raises(CaptureError, match=reason) as caught:
        capture(program, (X,), tensors=store)
    assert caught.value.line == f"test_refusals.py:{line}"
    assert caught.value.line in str(caught.value)
    assert isinstance(caught.value, MindgapError)


def test_a_decision_by_a_parameter_is_refused(store: TensorStore) -> None:
    with pytest.raises(CaptureError, match="reads a value"):
        capture(decides_by_a_parameter(), (X,), tensors=store)


@pytest.mark.parametrize("program", [
    lambda x: x * next(COUNT), lambda x: x * random.random(), lambda x: x * (time.perf_counter_ns() % 1000003),
    lambda x: x * float(np.random.rand()), lambda x: x + torch.from_numpy(np.full(8, next(COUNT), np.float32)),
])  # fmt: skip
def test_python_state_baked_into_the_graph_is_found(program: Any, store: TensorStore) -> None:
    with pytest.raises(CaptureError, match="output output replays differently"):
        capture(program, (X,), tensors=store)


def test_memory_written_behind_pytorch_is_found(store: TensorStore) -> None:
    shared = torch.from_numpy(BUFFER)

    def program(x: torch.Tensor) -> torch.Tensor:
        BUFFER[:] += 1
        return x * shared

    with pytest.raises(CaptureError, match="replays differently"):
        capture(program, (X,), tensors=store)


def test_a_value_that_leaks_out_of_the_first_input_only_is_found_on_the_second(store: TensorStore) -> None:
    known = float(X[0, 0])

    def program(x: torch.Tensor) -> torch.Tensor:
        # The real run branches on data in a way that dispatch never sees.
        inside = x.shape[0] == 4 and not isinstance(x, torch._subclasses.FakeTensor) and float(x[0, 0]) != known
        return x + 1 if inside else x

    with pytest.raises(CaptureError, match="replays differently on other arguments"):
        capture(program, (X,), tensors=store)


def test_a_capture_that_is_skipped_over_is_not_found() -> None:
    """The check is what finds it: without it the same program passes."""
    with pytest.warns(UserWarning, match="not proven"):
        capture(lambda x: x * next(COUNT), (X,), weights="seeded", verify=False)


def test_arguments_that_share_memory_and_are_written_to(store: TensorStore) -> None:
    base = X.clone()
    with pytest.raises(CaptureError, match="a and b share memory"):
        capture(lambda a, b: a.add_(1) + b, (base[:2], base[1:3]), tensors=store)


@pytest.mark.parametrize(("program", "args", "reason"), [
    (lambda x: None, (X,), "returns no tensor"), (lambda x: x, (X.to_sparse(),), "layout"),
    (lambda x: x, (torch.quantize_per_tensor(X, 0.1, 0, torch.qint8),), "qint8"),
    (lambda lines, x: x, (sys.__stderr__, X), r"lines \(\w+\) cannot be copied"),
    (lambda steps, x: x, ((each for each in range(3)), X), r"steps \(generator\) cannot be copied"),
    (lambda x: x, (torch.zeros(2, device="meta"),), "no values"),
])  # fmt: skip
def test_programs_and_arguments_of_the_wrong_kind(program: Any, args: Any, reason: str, store: TensorStore) -> None:
    with pytest.raises(CaptureError, match=reason):
        capture(program, args, tensors=store)


def test_device_bound_operators_are_refused(store: TensorStore) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(x, x, x)[0]

    with pytest.raises(CaptureError, match="one device only"):
        capture(program, (torch.randn(1, 2, 4, 8),), tensors=store)


def test_the_state_is_restored_after_a_refusal(store: TensorStore) -> None:
    before = torch.get_rng_state(), torch.backends.mha.get_fastpath_enabled(), torch.is_grad_enabled()
    with pytest.raises(CaptureError):
        capture(lambda x: F.dropout(x, 0.5) * x.sum().item(), (X,), tensors=store)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (torch.backends.mha.get_fastpath_enabled(), torch.is_grad_enabled())
    assert torch.zeros(2).sin().tolist() == [0.0, 0.0], "a dispatch mode stayed in force"


class Skeletons(nn.Module):
    """Members of an ensemble share one module whose weights are on meta, as `torch.func.stack_module_state` has it."""

    def __init__(self) -> None:
        super().__init__()
        self.held = [nn.Linear(8, 2).to("meta")]
        self.weights = nn.Parameter(torch.ones(3, 2, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bias = torch.zeros(2)
        call = torch.func.functional_call
        return torch.vmap(lambda weight: call(self.held[0], {"weight": weight, "bias": bias}, (x,)))(self.weights)


def normal(x: torch.Tensor) -> torch.Tensor:
    return torch.distributions.Normal(x, x.exp()).log_prob(x * 2)


@pytest.mark.parametrize("program", [normal, Skeletons()])
def test_what_asks_nothing_of_a_value_is_captured(program: Any, store: TensorStore) -> None:
    """Checks of distributions read values, and only raise; a module on meta has no values."""
    before = process_state.settings()
    assert capture(program, (X,), tensors=store).nodes
    assert process_state.settings() == before
