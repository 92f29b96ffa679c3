"""Smoke tests of the recorded operator calls and of the dispatcher's table."""

from __future__ import annotations

import torch

from mindgap.aten.torch_private.operator_events import (
    goes_to_boxed_fallback,
    has_boxed_fallback,
    is_operator,
    operands,
    operator_events,
    private_device,
)


def test_calls_are_recorded_with_overloads_operands_and_calls_inside() -> None:
    weight = torch.ones(3, 2)
    with operator_events() as recorded:
        torch.nn.functional.linear(torch.ones(4, 2), weight)
        torch.cat([weight, weight])
    linear, concatenated = (event for event in recorded.roots if event.name in ("aten::linear", "aten::cat"))
    assert is_operator(linear) and linear.overload_name == ""
    assert operands(linear) == [("cpu", 2), ("cpu", 2), None]
    assert operands(concatenated)[:2] == [("cpu", 2), ("cpu", 2)]
    assert {"aten::matmul", "aten::t"} <= {child.name for child in linear.children}


def test_nodes_of_autograd_are_no_operators() -> None:
    leaf = torch.ones(3, requires_grad=True)
    with operator_events() as recorded:
        torch.exp(leaf).sum().backward()
    roots = [event for event in recorded.roots if "ExpBackward0" in event.name]
    assert roots and not any(map(is_operator, roots))
    assert any(
        event.overload_name == "" and is_operator(event) for event in recorded.roots if event.name == "aten::exp"
    )


def test_without_a_device_of_others_nothing_goes_to_a_boxed_fallback() -> None:
    assert private_device() == "privateuseone" and not has_boxed_fallback()
    assert not goes_to_boxed_fallback("aten::exp.out")
