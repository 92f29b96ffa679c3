"""Masks the elements of a node's results that no standard defines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch

from mindgap.aten.tensors import TORCH_DTYPES
from mindgap.graph import kind_of
from mindgap.judge.oracle.evaluation.float64 import BoundCall


def undefined_masks(
    call: BoundCall, args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[Any]
) -> dict[int, torch.Tensor]:
    """Boolean masks by result slot; empty where everything is defined.

    Integer division by zero, float → integer out of range (ISO C 6.3.1.4), shifts past the width, duplicate
    indices of a write of different values that does not accumulate, memory never written, eigenvectors (any sign is
    one), transforms and factorisations of NaN or infinity.
    """
    if call.traits.undefined_if_not_finite and not all(map(_finite, [*args, *kwargs.values()])):
        return _not_finite_masks(results, call.traits.undefined_if_not_finite == "not NaN")
    if call.traits.free_outputs:
        free = [slot for slot in call.traits.free_outputs if slot < len(results)]
        tensors = {slot: results[slot] for slot in free if isinstance(results[slot], torch.Tensor)}
        return {slot: torch.ones(y.shape, dtype=torch.bool) for slot, y in tensors.items()}
    mask = _first_mask(call, args, kwargs, results)
    return {} if mask is None or not bool(mask.any()) else {0: mask.expand(results[0].shape)}


def _finite(arg: Any) -> bool:
    if isinstance(arg, (list, tuple)):
        return all(map(_finite, cast("Sequence[Any]", arg)))
    return not isinstance(arg, torch.Tensor) or bool(torch.isfinite(arg).all())


def _not_finite_masks(results: Sequence[Any], nan_stays: bool) -> dict[int, torch.Tensor]:
    tensors = {slot: y for slot, y in enumerate(results) if isinstance(y, torch.Tensor)}
    if not nan_stays:
        return {slot: torch.ones(y.shape, dtype=torch.bool) for slot, y in tensors.items()}
    masks = {slot: ~torch.isnan(y) for slot, y in tensors.items()}
    return {slot: mask for slot, mask in masks.items() if bool(mask.any())}


def _first_mask(
    call: BoundCall, args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[Any]
) -> torch.Tensor | None:
    if not results or not isinstance(results[0], torch.Tensor):
        return None
    spec = call.node.outputs[0]
    y = results[0]
    if call.traits.returns_uninitialised:
        return torch.ones(y.shape, dtype=torch.bool)
    if call.traits.casts and spec is not None and kind_of(spec.dtype) == "int":
        return _out_of_range(args, spec.dtype)
    where = call.traits.undefined_where
    if where == "integer division by zero" and not y.is_floating_point() and not y.is_complex():
        return torch.as_tensor(args[1]) == 0
    if where == "shift past the width" and spec is not None:
        count, width = torch.as_tensor(args[1]), TORCH_DTYPES[spec.dtype].itemsize * 8
        return (count < 0) | (count >= width)
    return _written_twice(call, args, kwargs, y) if where == "index written twice" else None


def _out_of_range(args: Sequence[Any], dtype: str) -> torch.Tensor | None:
    x = args[1] if args and isinstance(args[0], torch.Tensor) and len(args) > 1 and _is_float(args[1]) else args[0]
    if not _is_float(x):
        return None
    info = torch.iinfo(TORCH_DTYPES[dtype])
    cut = torch.trunc(x.real if x.is_complex() else x)
    # 2**63 is a float64, 2**63 - 1 is not: compare with the open end.
    return (
        ~((cut >= float(info.min)) & (cut < float(info.max) + 1))
        if info.bits == 64
        else ~((cut >= info.min) & (cut <= info.max))
    )


def _is_float(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())


def _written_twice(
    call: BoundCall, args: Sequence[Any], kwargs: Mapping[str, Any], y: torch.Tensor
) -> torch.Tensor | None:
    """Elements that are written more than once with values that differ: the order of the writes decides."""
    if "put" in call.packet and (args[3] if len(args) > 3 else kwargs.get("accumulate", False)):
        return None
    if call.packet == "scatter" and ("reduce" in kwargs or len(args) > 4):
        return None
    if (writes := _writes(call, args, y)) is None:
        return None
    left, values = writes
    equal = _equal(left, values)
    return (_spread(call, args, torch.ones_like(equal)) > 1) & (_spread(call, args, 1 - equal) > 0)


def could_be_written(
    call: BoundCall, args: Sequence[Any], kwargs: Mapping[str, Any], got: torch.Tensor
) -> torch.Tensor | None:
    """Elements of a result that hold a value which some order of the writes leaves there, of those that are written.

    None of an operator that writes no element twice. `got`: the result, in float64 where it is a float.
    """
    writes = _writes(call, args, got)
    return None if writes is None else _spread(call, args, _equal(*writes)) > 0


def _writes(call: BoundCall, args: Sequence[Any], y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
    """For each write what `y` holds at its place, and the value that is written; None of an operator without."""
    match call.packet:
        case "index_put" | "_unsafe_index_put":
            return torch.ops.aten.index(y, args[1]), args[2]
        case "put":
            return y.take(args[1]), args[2]
        case "scatter" if isinstance(args[3], torch.Tensor):
            return y.gather(args[1], args[2]), args[3][tuple(slice(0, size) for size in args[2].shape)]
        case "index_copy":
            return y.index_select(args[1], args[2]), args[3]
        case _:
            return None


def _spread(call: BoundCall, args: Sequence[Any], weights: torch.Tensor) -> torch.Tensor:
    """The sum of the weights of the writes to each element."""
    sums = torch.zeros(args[0].shape, dtype=torch.float64)
    match call.packet:
        case "index_put" | "_unsafe_index_put":
            return torch.ops.aten.index_put(sums, args[1], weights, True)
        case "put":
            return sums.put(args[1], weights, True)
        case "scatter":
            return sums.scatter_add(args[1], args[2], weights)
        case _:
            return sums.index_add(args[1], args[2], weights)


def _equal(got: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """1 where a value is the one written; NaN is NaN."""
    return ((got == values) | ((got != got) & (values != values))).to(torch.float64)
