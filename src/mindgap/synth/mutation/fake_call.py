"""Infers the specs of calls that have not run, on PyTorch's meta device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from mindgap.aten.operators import facts, overload
from mindgap.aten.tape import flatten_result
from mindgap.aten.tensors import TORCH_DTYPES, spec_of
from mindgap.graph import Arg, Device, DType, Layout, MemoryFormat, Ref, TensorSpec
from mindgap.synth.mutation.edit import DraftCall


def infer_specs(steps: Sequence[DraftCall], spec: Callable[[Arg], TensorSpec | None]) -> list[TensorSpec | None] | None:
    """Returns the specs of all slots of the steps; None if PyTorch refuses one of them."""
    made: list[torch.Tensor | None] = []

    def tensor(arg: Ref) -> torch.Tensor | None:
        if arg.index < 0:
            return made[-1 - arg.index]
        known = spec(arg)
        if known is None:
            raise ValueError("an operand is not known")
        return torch.empty_strided(known.shape, known.stride, dtype=TORCH_DTYPES[known.dtype], device="meta")

    try:
        with torch.no_grad():
            for step in steps:
                kwargs = {name: _value(arg, tensor) for name, arg in step.kwargs}
                if facts(step.op).takes_device:
                    kwargs["device"] = torch.device("meta")
                result = overload(step.op)(*[_value(arg, tensor) for arg in step.args], **kwargs)
                flat = flatten_result(result)
                if len(flat) != step.slots:
                    return None
                made += flat
        return [None if value is None else spec_of(value) for value in made]
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, KeyError, ZeroDivisionError):
        return None


def _value(arg: Arg, tensor: Callable[[Ref], Any]) -> Any:
    match arg:
        case Ref():
            return tensor(arg)
        case tuple():
            return [_value(item, tensor) for item in arg]
        case DType(name):
            return TORCH_DTYPES[name]
        case MemoryFormat(name) | Layout(name):
            return getattr(torch, name)
        case Device():
            return torch.device("meta")
        case _:
            return arg
