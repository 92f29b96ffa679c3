"""A custom operator is captured as the calls of its definition, or refused with its name."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import CaptureError, capture

X = torch.arange(32.0).reshape(4, 8) / 8 - 1.5
LIBRARY = torch.library.Library("mindgap_tests", "DEF")
for definition in ("composite", "python_kernel", "nothing"):
    LIBRARY.define(f"{definition}(Tensor x) -> Tensor")
LIBRARY.impl("composite", lambda x: x * 2 + 1, "CompositeImplicitAutograd")
LIBRARY.impl("python_kernel", lambda x: x * 3, "CPU")


@torch.library.register_fake("mindgap_tests::nothing", lib=LIBRARY)
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("mindgap_tests::without_fake", mutates_args=())
def without_fake(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


@torch.library.custom_op("mindgap_tests::with_gradient", mutates_args=())
def with_gradient(x: torch.Tensor) -> torch.Tensor:
    return x.exp()


@with_gradient.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


with_gradient.register_autograd(
    lambda ctx, slope: slope * torch.cos(*ctx.saved_tensors),
    setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
)


@torch.library.custom_op("mindgap_tests::in_place", mutates_args=("x",))
def in_place(x: torch.Tensor) -> None:
    x.add_(1)


@torch.library.custom_op("mindgap_tests::through_numpy", mutates_args=())
def through_numpy(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy() * 2)


class Holder(nn.Module):
    """Holds the operator as an attribute, which a copy of the module must hold too."""

    def __init__(self, operator: Any) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.operator(x) - 1


def add_in_place(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    in_place(y)
    return y


@pytest.mark.parametrize(("operator", "calls"), [
    (torch.ops.mindgap_tests.composite, ["mul.Tensor", "add.Tensor"]),
    (torch.ops.mindgap_tests.python_kernel, ["mul.Tensor"]), (without_fake, ["sin.default", "mul.Tensor"]),
    (with_gradient, ["exp.default"]), (add_in_place, ["clone.default", "add_.Tensor"]),
])  # fmt: skip
def test_the_graph_holds_the_calls_of_the_definition(operator: Any, calls: list[str], store: TensorStore) -> None:
    graph = capture(Holder(operator), (X,), tensors=store)
    assert [node.op for node in graph.nodes] == [*(f"aten.{call}" for call in calls), "aten.sub.Tensor"]
    assert "mindgap_tests." in graph.labels.nodes[len(calls) - 1]


def test_a_gradient_of_its_own_is_captured_too(store: TensorStore) -> None:
    graph = capture(Holder(with_gradient), (X,), tensors=store, backward=True)
    assert "grad:x" in graph.labels.outputs
    assert {"aten.exp.default", "aten.cos.default"} <= {node.op for node in graph.nodes}


@pytest.mark.parametrize(("operator", "reason"), [
    (torch.ops.mindgap_tests.nothing, "mindgap_tests::nothing is a custom operator.*register_kernel"),
    (through_numpy, r"numpy array.*\(in the custom operator mindgap_tests::through_numpy\)"),
])  # fmt: skip
def test_an_operator_without_calls_of_pytorch_is_refused_by_name(
    operator: Any, reason: str, store: TensorStore
) -> None:
    with pytest.raises(CaptureError, match=reason):
        capture(Holder(operator), (X,), tensors=store)
