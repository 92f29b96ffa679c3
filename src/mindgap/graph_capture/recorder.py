"""The dispatch mode that records the calls of a program, under fake tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from mindgap.aten.operators import is_composite
from mindgap.aten.torch_private.fake_tensors import FakeTensorMode
from mindgap.aten.torch_private.pre_dispatch import (
    PreDispatchMode,
    call_decomposed,
    call_with_autocast,
    has_autocast_rule,
    in_function_transform,
    redispatch_below,
    without_mode,
)
from mindgap.graph_capture import random_operators
from mindgap.graph_capture.custom_operators import BUILT_IN, call_definition, definition_of
from mindgap.graph_capture.neutral_settings import portable_kernels
from mindgap.graph_capture.origin import current_origin
from mindgap.graph_capture.recording import norm_with_declared_writes
from mindgap.graph_capture.value_table import ValueTable


class Recorder(PreDispatchMode):
    """Records every call above autocast and autograd. Identifies tensors by their fakes."""

    def __init__(self, fake_mode: FakeTensorMode, modules: dict[int, str]) -> None:
        super().__init__()
        self.values = ValueTable(fake_mode, lambda: current_origin(modules), lambda: self, lambda: without_mode(self))

    def __torch_dispatch__(self, func: Any, kinds: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default or func.namespace == "profiler":
            return func(*args, **kwargs)
        if in_function_transform():
            with self:
                return redispatch_below(func, args, kwargs)
        if torch.is_autocast_enabled("cpu"):
            if has_autocast_rule(func):
                with self:
                    return call_with_autocast(func, args, kwargs)
            # A composite without a rule may call operators that have one.
            if is_composite(func) and not random_operators.is_random(func, args, kwargs):
                with self, portable_kernels():
                    return call_decomposed(func, *args, **kwargs)
        if random_operators.is_random(func, args, kwargs):
            return self.values.draw(func, args, kwargs)
        hidden = _HIDDEN_WRITES.get(random_operators.packet(func))
        if hidden is not None:
            bound = random_operators.bind(func, args, kwargs)
            if hidden[0](bound):
                with self:
                    return hidden[1](func, bound, args, kwargs)
        if func in (torch.ops.aten.lift_fresh.default, torch.ops.aten.detach_.default):
            return self.values.faked(args[0])  # nothing happens to the values: there are no gradients here
        if func is torch.ops.aten._int_mm.default:
            with self:
                return torch.mm(args[0].to(torch.int32), args[1].to(torch.int32))
        if self.values.follows and compares_whole(func, args):
            with self:
                if func is torch.ops.aten.allclose.default:
                    return bool(torch.isclose(*args, **kwargs).all())
                return bool((args[0] == args[1]).all())
        definition = definition_of(func)
        self.values.recorded.custom |= definition is not None and func.namespace not in BUILT_IN
        if definition is not None:
            with self, portable_kernels(), self.values.within(func):
                return call_definition(func, definition, args, kwargs)
        return self.values.record(func, args, kwargs)


def compares_whole(func: Any, args: Sequence[Any]) -> bool:
    """Whether a call gives Python code one truth value of two whole tensors, by their values."""
    if func is torch.ops.aten.equal.default:
        return args[0].shape == args[1].shape
    return func is torch.ops.aten.allclose.default


def _training_norm(func: Any, bound: Mapping[str, Any], _: Any, __: Any) -> Any:
    return norm_with_declared_writes(bound)[0]


def _taken_apart(func: Any, _: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    return call_decomposed(func, *args, **kwargs)


#: Operators that write running statistics without saying so in their schema: (does this call?, what to record).
_HIDDEN_WRITES: Final[dict[str, tuple[Callable[[Mapping[str, Any]], bool], Callable[..., Any]]]] = {
    "batch_norm": (lambda b: bool(b["training"]) and b["running_mean"] is not None, _training_norm),
    "instance_norm": (lambda b: bool(b["use_input_stats"]) and b["running_mean"] is not None, _taken_apart),
}
