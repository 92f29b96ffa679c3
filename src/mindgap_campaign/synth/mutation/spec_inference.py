"""Infers the specs of calls that have not run, on PyTorch's meta device."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from mindgap.aten.operators import bind, facts, overload
from mindgap.aten.tape import flatten_result
from mindgap.aten.tensors import TORCH_DTYPES, spec_of
from mindgap.graph import Arg, Ref, TensorSpec
from mindgap_campaign.synth.mutation.edit import DraftCall

_META = torch.device("meta")


def infer_specs(steps: Sequence[DraftCall], spec: Callable[[Arg], TensorSpec | None]) -> list[TensorSpec | None] | None:
    """Returns the specs of all slots of the steps; None if PyTorch refuses one of them."""
    made: list[torch.Tensor | None] = []

    def tensor(index: int) -> torch.Tensor | None:
        if index < 0:
            return made[-1 - index]
        known = spec(Ref(index))
        if known is None:
            raise ValueError("an operand is not known")
        return torch.empty_strided(known.shape, known.stride, dtype=TORCH_DTYPES[known.dtype], device=_META)

    try:
        with torch.no_grad():
            for step in steps:
                kwargs = {name: bind(arg, tensor, _META) for name, arg in step.kwargs}
                if facts(step.op).takes_device:
                    kwargs["device"] = _META
                result = overload(step.op)(*[bind(arg, tensor, _META) for arg in step.args], **kwargs)
                flat = flatten_result(result)
                if len(flat) != step.slots:
                    return None
                made += flat
        return [None if value is None else spec_of(value) for value in made]
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, KeyError, ZeroDivisionError):
        return None
