"""Adds random errors of a given size to exact results before they are rounded."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import torch

from mindgap.judge.oracle.evaluation.formats import rounded

#: Elements that are worked on at a time, so that what is needed on the way stays in the cache.
_CHUNK: Final = 1 << 16


@lru_cache(maxsize=1)
def sign_pool() -> torch.Tensor:
    """±1, float32, a prime number of them so that segments of equal length rarely meet again."""
    generator = torch.Generator().manual_seed(0xC0FFEE)
    return torch.empty(4_194_301).bernoulli_(0.5, generator=generator).mul_(2).sub_(1)


def a_start(count: int, generator: torch.Generator) -> int:
    """A random place in the pool, gone through again and again, where a segment of `count` signs begins."""
    length = len(sign_pool())
    if count > length // 2:
        length *= 2 * count // length + 1
    return int(torch.randint(length - count, (), generator=generator))


def signs(start: int, count: int) -> torch.Tensor:
    """A segment of the pool."""
    pool = sign_pool()
    start %= len(pool)
    if start + count <= len(pool):
        return pool[start : start + count]
    parts = [pool[start:], *[pool] * ((start + count) // len(pool) - 1), pool[: (start + count) % len(pool)]]
    return torch.cat(parts)


def disturbed(y: torch.Tensor, size: torch.Tensor, starts: tuple[int, ...], dtype: str, quiet: bool) -> torch.Tensor:
    """y ± size rounded to `dtype`, held in y's own. `starts`: where its signs lie in the pool, for each part.

    `quiet`: size is zero somewhere; there the bits stay, since adding zero would erase the sign of -0.
    """
    if y.is_complex():
        # Either part errs by as much as the whole: products of parts cancel.
        real, imaginary = (signs(s, y.numel()).reshape(y.shape).to(torch.float64) for s in starts)
        return _plainly(y, torch.complex(real, imaginary), size, dtype, quiet)
    if y.dtype == torch.float64 and y.is_contiguous() and size.is_contiguous() and y.numel() > _CHUNK:
        return _in_chunks(y, size, starts[0], dtype, quiet)
    return _plainly(y, signs(starts[0], y.numel()).reshape(y.shape), size, dtype, quiet)


def _plainly(y: torch.Tensor, chosen: torch.Tensor, size: torch.Tensor, dtype: str, quiet: bool) -> torch.Tensor:
    moved = y + chosen * size
    return rounded(torch.where(size > 0, moved, y) if quiet else moved, dtype)


def _in_chunks(y: torch.Tensor, size: torch.Tensor, start: int, dtype: str, quiet: bool) -> torch.Tensor:
    moved = torch.empty_like(y)
    flat, error, result = y.view(-1), size.view(-1), moved.view(-1)
    for first in range(0, y.numel(), _CHUNK):
        part = slice(first, min(first + _CHUNK, y.numel()))
        step = (signs(start + first, part.stop - first) * error[part]).to(torch.float64).add_(flat[part])
        if quiet:
            step = torch.where(error[part] > 0, step, flat[part])
        result[part] = rounded(step, dtype)
    return moved
