"""Corrupts one result of an operator: a function from fault and tensor to tensor."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import torch

from mindgap.aten.tensors import TORCH_DTYPES, to_numpy, to_torch
from mindgap.graph import Array, dtype_name, kind_of
from mindgap.graph.compare.metrics import ordered
from mindgap_campaign.faulty import schema


def _top(dtype: torch.dtype) -> int:
    return int(ordered(to_numpy(torch.tensor([torch.finfo(dtype).max], dtype=dtype)))[0])


#: Largest finite value of each real float format, in steps above zero.
_TOP: Final = {name: _top(dtype) for name, dtype in TORCH_DTYPES.items() if kind_of(name) == "float"}


def corrupted(fault: schema.Fault, result: torch.Tensor, draw: int) -> torch.Tensor:
    """Applies a fault to a result; kinds that act on the call and not on the result change nothing.

    `draw`: a count of calls, so that each draws other numbers. Returns a new tensor; the operand is unchanged.
    """
    match fault:
        case schema.Noise() | schema.Nondeterministic():
            return _change_parts(result, partial(_noisy, ulp=fault.ulp, seed=fault.seed, draw=draw))
        case schema.FlushSubnormals():
            return _change_parts(result, _flushed)
        case schema.NanToZero():
            return _replaced(result, torch.isnan, 0.0)
        case schema.NanToInf():
            return _replaced(result, torch.isnan, float("inf"))
        case schema.InfToNan():
            return _replaced(result, torch.isinf, float("nan"))
        case schema.Scaled():
            return (result * fault.factor).to(result.dtype)
        case schema.WrongElement():
            return _one_wrong(result, fault)
        case schema.Transposed():
            return _transposed(result)
        case schema.WrongDtype():
            return _recast(result, fault.dtype)
        case schema.WrongShape():
            return _misshapen(result, fault.how)
        case _:
            return result


def toward_zero(exact: torch.Tensor, rounded: torch.Tensor) -> torch.Tensor:
    """Truncates `exact` (float64 or complex128) to the dtype of `rounded`; if that is as wide, steps towards zero."""
    if not (rounded.is_floating_point() or rounded.is_complex()) or exact.shape != rounded.shape:
        return rounded
    wide = _parts(to_numpy(exact)).astype(np.float64)

    def cut(parts: Array) -> Array:
        nearest = wide.astype(parts.dtype)
        if parts.dtype == np.float64:
            away = np.isfinite(nearest) & (nearest != 0)
        else:
            away = np.isfinite(wide) & (np.abs(nearest.astype(np.float64)) > np.abs(wide))
        rank = ordered(nearest)
        return _from_ordered(np.where(away, rank - np.sign(rank), rank), nearest, away)

    with np.errstate(over="ignore", invalid="ignore"):
        return _change_parts(rounded, cut)


def lowered(operand: torch.Tensor, to: str) -> torch.Tensor:
    """Rounds the operand to a narrower format and back; tf32 keeps 10 of 23 mantissa bits, ties away from zero."""
    if not operand.is_floating_point() or operand.element_size() < 4:
        return operand
    if to != "tf32":
        return operand.to(TORCH_DTYPES[to]).to(operand.dtype)
    bits = operand.to(torch.float32).contiguous().view(torch.int32)
    kept = ((bits + (1 << 12)) & ~((1 << 13) - 1)).view(torch.float32)
    return torch.where(torch.isfinite(operand), kept.to(operand.dtype), operand)


def _parts(array: Array) -> Array:
    flat = array.reshape(-1)
    return flat.view(f"f{array.dtype.itemsize // 2}") if array.dtype.kind == "c" else flat


def _change_parts(result: torch.Tensor, change: Callable[[Array], Array]) -> torch.Tensor:
    """Applies a change to the real float values of a tensor, to both parts of complex ones; others stay."""
    if not (result.is_floating_point() or result.is_complex()) or result.numel() == 0:
        return result.clone()
    array = to_numpy(result)
    changed = np.ascontiguousarray(change(_parts(array)))
    return to_torch(changed.view(array.dtype).reshape(array.shape))


def _from_ordered(rank: Array, like: Array, where: Array) -> Array:
    """Converts ranks in the order of all floats back to floats; unchanged ones are `like`, with signed zeros."""
    width = like.dtype.itemsize
    bits = np.abs(rank).astype(f"u{width}")
    sign = np.where(rank < 0, np.array(1 << (8 * width - 1), f"u{width}"), np.array(0, f"u{width}"))
    return np.where(where, bits | sign, like.view(f"u{width}")).astype(f"u{width}").view(like.dtype)


def _noisy(parts: Array, ulp: int, seed: int, draw: int) -> Array:
    """Moves every finite element by ±1 … ±ulp steps, from raw Philox bits, never past the largest finite value."""
    raw = np.random.Philox(key=seed, counter=[0, 0, 0, draw]).random_raw(parts.size)
    steps = (raw % np.uint64(ulp)).astype(np.int64) + 1
    signed = np.where(raw >> np.uint64(63) == 0, steps, -steps)
    top = _TOP[dtype_name(parts.dtype)]
    rank = np.clip(ordered(parts) + signed, -top, top)
    return _from_ordered(rank, parts, np.abs(ordered(parts)) <= top)


def _flushed(parts: Array) -> Array:
    smallest = torch.finfo(TORCH_DTYPES[dtype_name(parts.dtype)]).smallest_normal
    tiny = np.abs(parts.astype(np.float64)) < smallest
    return np.where(tiny, np.copysign(np.array(0, parts.dtype), parts), parts)


def _replaced(result: torch.Tensor, which: Callable[[torch.Tensor], torch.Tensor], by: float) -> torch.Tensor:
    if not (result.is_floating_point() or result.is_complex()):
        return result.clone()
    return torch.where(which(result), torch.tensor(by, dtype=result.dtype), result)


def _recast(result: torch.Tensor, dtype: str) -> torch.Tensor:
    # Said outright, or PyTorch warns that the imaginary part is lost.
    real = result.real if result.is_complex() and kind_of(dtype) != "complex" else result
    return real.to(TORCH_DTYPES[dtype])


def _one_wrong(result: torch.Tensor, fault: schema.WrongElement) -> torch.Tensor:
    changed = result.clone(memory_format=torch.contiguous_format)
    if changed.numel():
        flat = changed.view(-1)
        at = fault.index % flat.numel()
        if changed.dtype == torch.bool:
            flat[at] = ~flat[at]
        else:
            flat[at] = flat[at] * fault.scale + fault.add
    return changed


def _transposed(result: torch.Tensor) -> torch.Tensor:
    if result.dim() < 2:
        return result.clone()
    return result.transpose(-1, -2).contiguous().view(result.shape)


def _misshapen(result: torch.Tensor, how: str) -> torch.Tensor:
    if how == "extra":
        return result.unsqueeze(0).clone()
    if how == "short" and result.dim() and result.shape[-1]:
        return result[..., :-1].clone()
    return result.reshape(-1).clone() if result.dim() != 1 else result.reshape(1, -1).clone()
