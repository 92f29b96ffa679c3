"""Draws inputs from Philox 4x64 by integer arithmetic and single IEEE operations: the same bits everywhere."""

# pyright: basic
# (numpy's shapes and torch are typed in parts only)

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from script.parts.tensors import CARRIERS, epsilon


def uniform(
    seed: int, shape: Sequence[int], dtype: torch.dtype, low: float, high: float, first: float, last: float
) -> torch.Tensor:
    """low + (high - low) * k / 2**n, rounded. `first`, `last`: the outermost values of the dtype in [low, high)."""
    part, count = parts_of(dtype, shape)
    if part == torch.float64:
        steps, scale = words(seed, count) >> np.uint64(11), math.ldexp(high - low, -53)
    else:
        steps, scale = words(seed, (count + 1) // 2).view("<u4")[:count], math.ldexp(high - low, -32)
    return assembled(scaled(steps, scale, part, low, high, first, last), dtype, shape)


def normal(seed: int, shape: Sequence[int], dtype: torch.dtype, mean: float, std: float) -> torch.Tensor:
    """mean + std * z, rounded; z is a sum of twelve uniform integers and three signed weights, of variance 1."""
    part, count = parts_of(dtype, shape)
    extra = 17 if part == torch.float64 else 0
    drawn = words(seed, count * (3 if extra else 2)).reshape(count, -1)
    weights = {0: (18537459, 18537547, 18568707), 17: (2431111677429, 2424853860715, 2437353439093)}[extra]
    centre = (11 * 255 << (24 + extra)) + (1 << (32 + extra)) - 1
    signed = [sum(w if k >> i & 1 else -w for i, w in enumerate(weights)) - centre for k in range(8)]
    coarse = byte_sum(drawn[:, 0]) + byte_sum(drawn[:, 1] & np.uint64(0xFF_FFFF))
    fine = drawn[:, 1] >> np.uint64(32)
    if extra:
        fine = (fine << np.uint64(extra)) | (drawn[:, 2] >> np.uint64(64 - extra))
    total = (coarse << np.uint64(25 + extra)).view(np.int64) + (fine << np.uint64(1)).view(np.int64)
    total += np.array(signed, np.int64)[((drawn[:, 1] >> np.uint64(24)) & np.uint64(7)).view(np.int64)]
    values = total.astype(np.float64) * math.ldexp(std, -33 - extra) + mean
    largest = torch.finfo(part).max
    return assembled(np.where(np.abs(values) <= largest, on_grid(values, part) + 0.0,
                              np.copysign(largest, values)), dtype, shape)  # fmt: skip


def integers(seed: int, shape: Sequence[int], dtype: torch.dtype, low: int, high: int) -> torch.Tensor:
    """low + floor(k * (high - low) / 2**n), modulo 2**64 before it becomes the dtype."""
    part, count = parts_of(dtype, shape)
    span = high - low
    if span <= 1 << 32:
        drawn, wide, half = words(seed, count), np.uint64(span), np.uint64(32)
        offset = (((drawn & np.uint64(0xFFFF_FFFF)) * wide) >> half) + (drawn >> half) * wide >> half
    elif span == 1 << 64:
        offset = words(seed, 2 * count)[::2]
    else:
        pairs = words(seed, 2 * count).reshape(-1, 2).tolist()
        offset = np.array([((upper << 64 | lower) * span) >> 128 for upper, lower in pairs], np.uint64)
    found = offset + np.uint64(low & 0xFFFF_FFFF_FFFF_FFFF)
    if part.is_floating_point:
        return assembled(on_grid(found.view(np.int64).astype(np.float64), part), dtype, shape)
    name = str(part).removeprefix("torch.")
    return torch.from_numpy(found.astype(np.dtype(name))).reshape(tuple(shape))


def permutation(seed: int, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Draws a permutation of 0 ... n-1 for each row, by sorting one word for each element."""
    length = shape[-1] if shape else 1
    keys = words(seed, math.prod(shape)).reshape(-1, max(length, 1))
    return torch.from_numpy(np.argsort(keys, axis=-1, kind="stable")).to(dtype).reshape(tuple(shape))


def exceptional(
    seed: int,
    shape: Sequence[int],
    dtype: torch.dtype,
    share: float,
    first: float,
    last: float,
    specials: Sequence[int],
) -> torch.Tensor:
    """Uniform in [-1, 1), about `share` of the elements out of `specials`: NaN, infinities and extremes as bits."""
    part, count = parts_of(dtype, shape)
    drawn = words(seed, count * (2 if part == torch.float64 else 1))
    if part == torch.float64:
        choice, steps, bits = drawn[1::2] & np.uint64(0xFFFF_FFFF), drawn[::2] >> np.uint64(11), 53
    else:
        choice, steps, bits = drawn & np.uint64(0xFFFF_FFFF), drawn >> np.uint64(32), 32
    found = as_dtype(scaled(steps, math.ldexp(2.0, -bits), part, -1.0, 1.0, first, last), part)
    threshold = round(share * (1 << 32))
    chosen = choice < np.uint64(threshold)
    which = choice[chosen] * np.uint64(len(specials)) // np.uint64(max(threshold, 1))
    carried = found.view(CARRIERS[found.element_size()]).numpy()
    table = np.array(specials, np.uint64).astype(f"u{found.element_size()}").view(carried.dtype)
    carried[chosen] = table[which.view(np.int64)]
    return found.view(dtype).reshape(tuple(shape))


def words(seed: int, count: int) -> np.ndarray:
    """Returns `count` 64-bit words, with the counter starting at zero."""
    return np.random.Philox(key=seed).random_raw(count)


def parts_of(dtype: torch.dtype, shape: Sequence[int]) -> tuple[torch.dtype, int]:
    """Returns the real dtype to draw, and how many numbers: two for a complex one."""
    parts = {torch.complex64: torch.float32, torch.complex128: torch.float64}
    return parts.get(dtype, dtype), math.prod(shape) * (2 if dtype in parts else 1)


def scaled(
    steps: np.ndarray, scale: float, part: torch.dtype, low: float, high: float, first: float, last: float
) -> np.ndarray:
    """Returns low + steps * scale on the grid of the dtype, kept inside [first, last]."""
    largest = torch.finfo(part).max
    values = np.clip(np.multiply(steps, scale, dtype=np.float64) + low, -largest, largest)
    return np.minimum(np.maximum(on_grid(values, part) + 0.0, first), last)


def on_grid(values: np.ndarray, part: torch.dtype) -> np.ndarray:
    """Rounds float64 values once, to nearest and ties to even, to values of the dtype."""
    if part == torch.float64:
        return values
    if part in (torch.float32, torch.float16):
        with np.errstate(over="ignore"):
            return values.astype(np.float32 if part == torch.float32 else np.float16).astype(np.float64)
    about = torch.finfo(part)
    # Adding and subtracting 1.5 * 2**52 times a value's last place rounds it there.
    power = (values.view(np.uint64) & np.uint64(0x7FF0_0000_0000_0000)).view(np.float64)
    shift = np.maximum(power, about.smallest_normal) * (1.5 * 2.0**52 * epsilon(part))
    return np.copysign(values + shift - shift, values)


def as_dtype(values: np.ndarray, part: torch.dtype) -> torch.Tensor:
    """Converts float64 values that the dtype holds exactly."""
    return torch.from_numpy(np.ascontiguousarray(values, np.float64)).to(part)


def assembled(values: np.ndarray, dtype: torch.dtype, shape: Sequence[int]) -> torch.Tensor:
    """Makes a tensor of flat values; pairs become complex numbers."""
    return as_dtype(values, parts_of(dtype, shape)[0]).view(dtype).reshape(tuple(shape))


def byte_sum(drawn: np.ndarray) -> np.ndarray:
    """Returns the sum of the eight bytes of each word."""
    even = np.uint64(0x00FF_00FF_00FF_00FF)
    pairs = (drawn & even) + ((drawn >> np.uint64(8)) & even)
    return (pairs * np.uint64(0x0001_0001_0001_0001)) >> np.uint64(48)
