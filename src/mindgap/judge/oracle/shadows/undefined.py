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
    indices of a write that does not accumulate, memory never written, eigenvectors (any sign is one), transforms and
    factorisations of NaN or infinity.
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
    return _written_twice(call, args, kwargs) if where == "index written twice" else None


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


def _written_twice(call: BoundCall, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor | None:
    """Elements that are written more than once, with values that may differ."""
    base, packet = torch.zeros(args[0].shape, dtype=torch.float64), call.packet
    if packet in ("index_put", "_unsafe_index_put", "put"):
        if (args[3] if len(args) > 3 else kwargs.get("accumulate", False)) or args[2].numel() == 1:
            return None
        if packet == "put":
            return base.put(args[1], torch.ones(args[1].shape, dtype=torch.float64), True) > 1
        return torch.ops.aten.index_put(base, args[1], torch.ones((), dtype=torch.float64), True) > 1
    if packet == "scatter" and isinstance(args[3], torch.Tensor) and "reduce" not in kwargs and len(args) < 5:
        return base.scatter_add(args[1], args[2], torch.ones(args[2].shape, dtype=torch.float64)) > 1
    if packet == "index_copy":
        return base.index_add(args[1], args[2], torch.ones(args[3].shape, dtype=torch.float64)) > 1
    return None


def could_be_written(
    call: BoundCall, args: Sequence[Any], kwargs: Mapping[str, Any], got: torch.Tensor
) -> torch.Tensor | None:
    """Elements of a result that hold a value which some order of the writes leaves there, of those that are written.

    None of an operator that writes no element twice. `got`: the result, in float64 where it is a float.
    """
    packet, written = call.packet, torch.zeros(got.shape, dtype=torch.float64)
    if packet in ("index_put", "_unsafe_index_put"):
        equal = _equal(torch.ops.aten.index(got, args[1]), args[2])
        return torch.ops.aten.index_put(written, args[1], equal, True) > 0
    if packet == "put":
        return written.put(args[1], _equal(got.take(args[1]), args[2]), True) > 0
    if packet == "scatter" and isinstance(args[3], torch.Tensor):
        values = args[3][tuple(slice(0, size) for size in args[2].shape)]
        return written.scatter_add(args[1], args[2], _equal(got.gather(args[1], args[2]), values)) > 0
    if packet == "index_copy":
        return written.index_add(args[1], args[2], _equal(got.index_select(args[1], args[2]), args[3])) > 0
    return None


def _equal(got: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """1 where a value is the one written; NaN is NaN."""
    return ((got == values) | ((got != got) & (values != values))).to(torch.float64)
