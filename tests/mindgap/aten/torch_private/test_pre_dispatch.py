"""Smoke tests of modes at the pre-dispatch level."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mindgap.aten.torch_private.fake_tensors import TorchDispatchMode
from mindgap.aten.torch_private.pre_dispatch import (
    PreDispatchMode,
    call_decomposed,
    call_with_autocast,
    call_without_python_dispatcher,
    has_autocast_rule,
    in_function_transform,
    newest_autograd_node,
    redispatch_below,
    run_under_pre_dispatch,
    running_autograd_node,
    tensors_in,
    without_mode,
)


class Seen(PreDispatchMode):
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.calls: list[str] = []
        self._call = call

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append(str(func))
        return self._call(self, func, args, kwargs or {})


def plain(mode: Seen, func: Any, args: Any, kwargs: Any) -> Any:
    return func(*args, **kwargs)


def test_composite_operators_are_seen_whole() -> None:
    mode = Seen(plain)
    with run_under_pre_dispatch(mode):
        torch.nn.functional.linear(torch.ones(1, 2), torch.ones(3, 2))
    assert mode.calls == ["aten.ones.default", "aten.ones.default", "aten.linear.default"]


def test_a_mode_is_suspended_and_comes_back() -> None:
    mode = Seen(plain)
    with run_under_pre_dispatch(mode):
        with without_mode(mode):
            x = torch.ones(2)
        x + x
    assert mode.calls == ["aten.add.Tensor"]


def test_composites_are_decomposed_and_python_definitions_skipped() -> None:
    linear = torch.ops.aten.linear.default
    x, weight = torch.ones(1, 2), torch.ones(3, 2)

    def decomposed(mode: Seen, func: Any, args: Any, kwargs: Any) -> Any:
        if func is not linear:
            return call_without_python_dispatcher(func, args, kwargs)
        with mode:
            return call_decomposed(func, *args, **kwargs)

    mode = Seen(decomposed)
    with run_under_pre_dispatch(mode):
        result = linear(x, weight)
    assert mode.calls[0] == "aten.linear.default"
    assert len(mode.calls) > 1
    assert result.tolist() == [[2, 2, 2]]


def test_autocast_has_rules() -> None:
    matmul = torch.ops.aten.mm.default
    assert has_autocast_rule(matmul)
    assert not has_autocast_rule(torch.ops.aten.neg.default)
    with torch.autocast("cpu", torch.bfloat16):
        assert call_with_autocast(matmul, (torch.ones(2, 2), torch.ones(2, 2)), {}).dtype == torch.bfloat16


def test_calls_inside_vmap_are_redispatched() -> None:
    def below(mode: Seen, func: Any, args: Any, kwargs: Any) -> Any:
        if not in_function_transform():
            return func(*args, **kwargs)
        with mode:
            return redispatch_below(func, args, kwargs)

    mode = Seen(below)
    x = torch.arange(6.0).reshape(3, 2)
    with run_under_pre_dispatch(mode):
        result = torch.vmap(lambda row: row.neg().sum())(x)
    assert result.tolist() == [-1, -5, -9]
    assert mode.calls.count("aten.neg.default") > 1  # what a redispatched call makes in turn is seen too


def test_autograd_nodes_are_numbered_alike_forward_and_backward() -> None:
    x = torch.ones(2, requires_grad=True)
    forward: dict[int, str] = {}
    backward: set[int | None] = set()

    class Below(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            node = running_autograd_node()
            if node is None:
                forward.setdefault(newest_autograd_node(), str(func))
            else:
                backward.add(node)
            return func(*args, **(kwargs or {}))

    with Below():
        torch.exp(x).sum().backward()
    assert "aten.exp.default" in {forward[node] for node in backward if node in forward}


def test_tensors_are_found_in_nested_operands() -> None:
    x, y = torch.ones(1), torch.ones(2)
    assert list(tensors_in(([x, 1], {"a": (y,)}))) == [x, y]
