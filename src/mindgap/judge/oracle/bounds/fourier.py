"""Bounds of Fourier transforms.

The error grows with the logarithm of the length, relative to the 2-norm of what is transformed.

Higham, *Accuracy and Stability of Numerical Algorithms*, §24: a fast transform of length n errs by no more than a small
multiple of u·log₂n·‖y‖₂, spread over all elements of y; on average by u·√log₂n. The definition summed term by term
errs by u·√n/3 and stays within the limit up to a length of 10⁴, but only if its twiddle factors are right: with angles
of n·k rounded to float32 it errs by u·n and more.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from mindgap.judge.oracle.bounds.rules import Bound, Site, rule

#: Where each operator has its dimensions, and which ones it takes without any.
_ONE = frozenset({"fft_fft", "fft_ifft", "fft_rfft", "fft_irfft", "fft_hfft", "fft_ihfft"})
_TWO = frozenset({"fft_fft2", "fft_ifft2", "fft_rfft2", "fft_irfft2"})


@rule("_fft_c2c", "_fft_r2c", "_fft_c2r", "fft_fft", "fft_ifft", "fft_rfft", "fft_irfft", "fft_fft2", "fft_ifft2",
      "fft_rfft2", "fft_irfft2", "fft_fftn", "fft_ifftn", "fft_rfftn", "fft_irfftn", "fft_hfft",
      "fft_ihfft")  # fmt: skip
def transforms(site: Site) -> list[Bound | None]:
    """Over the transformed dimensions: u·√log₂n typical, u·log₂n hard, times the root mean square of the result."""
    y = site.results[0]
    dims = _dims(site, y.dim())
    x = site.args[0]
    length = float(math.prod(max(y.shape[d], x.shape[d]) for d in dims))
    return [_spread(site, y, dims, length)]


def _spread(site: Site, y: torch.Tensor, dims: Sequence[int], length: float) -> Bound:
    size = torch.nan_to_num(y.abs(), nan=0.0, posinf=0.0) ** 2
    rms = size.mean(tuple(dims), keepdim=True).sqrt() if dims and y.numel() else size.sqrt()
    levels = math.log2(max(length, 4.0))
    return Bound((site.u * math.sqrt(levels) * rms).expand(y.shape), (site.u * levels * rms).expand(y.shape))


def _dims(site: Site, rank: int) -> list[int]:
    packet = site.call.packet
    if packet.startswith("_fft"):
        chosen: Any = site.args[1]
    elif packet in _ONE:
        chosen = [site.arg(2, "dim", -1)]
    elif packet in _TWO:
        chosen = site.arg(2, "dim", [-2, -1])
    else:
        chosen = site.arg(2, "dim")
        if chosen is None:
            lengths = site.arg(1, "s")
            chosen = range(rank) if lengths is None else range(rank - len(lengths), rank)
    return [int(d) % max(rank, 1) for d in chosen]


@rule("stft")
def windowed(site: Site) -> list[Bound | None]:
    """A transform for each frame; the window rounds once more."""
    y = site.results[0]
    spectrum = torch.view_as_complex(y) if not y.is_complex() else y
    bound = _spread(site, spectrum, [spectrum.dim() - 2], float(site.args[1]))
    if y.is_complex():
        return [bound]
    return [Bound(*(b.unsqueeze(-1).expand(y.shape) for b in (bound.typical, bound.hard)))]


@rule("istft")
def unwindowed(site: Site) -> list[Bound | None]:
    """Frames added up, over the window's squares added up: small at the edges, where errors grow with the quotient.

    An error of u in every frame, of the size of all of them, ends as that signal of ones does.
    """
    x, y = site.args[0], site.results[0]
    spectrum = torch.view_as_complex(x) if not x.is_complex() else x
    frames = spectrum.abs().square().sum(-2).amax(-1, keepdim=True).sqrt()
    window = site.arg(4, "window")
    length, hop = int(site.args[1]), int(site.arg(2, "hop_length") or site.args[1] // 4)
    weights = window.abs() if window is not None else torch.ones(length, dtype=torch.float64)
    edge = _amplified(weights, length, hop, spectrum.shape[-1], bool(site.arg(5, "center", True)), y.shape[-1])
    # ‖frame‖₂ = ‖spectrum‖₂/√n, of which a one-sided spectrum shows half of the squares.
    scale = math.sqrt(2 / length) if site.arg(6, "normalized", False) else math.sqrt(2) / length
    size = site.u * math.log2(max(length, 4)) * edge * frames * scale
    return [Bound(size.expand(y.shape), size.expand(y.shape))]


def _amplified(window: torch.Tensor, length: int, hop: int, count: int, centred: bool, kept: int) -> torch.Tensor:
    """Σ w / Σ w² at each place that is kept."""
    padded = torch.zeros(length, dtype=torch.float64)
    start = (length - window.shape[0]) // 2
    padded[start : start + window.shape[0]] = window
    positions = torch.arange(length)[None, :] + hop * torch.arange(count)[:, None]
    total = torch.zeros(length + hop * (count - 1), dtype=torch.float64)
    weight = total.index_add(0, positions.flatten(), padded.expand(count, -1).flatten())
    square = total.index_add(0, positions.flatten(), (padded**2).expand(count, -1).flatten())
    ratio = weight / square.clamp_min(1e-30)
    first = length // 2 if centred else 0
    ratio = ratio[first : first + kept]
    return torch.nn.functional.pad(ratio, (0, kept - ratio.shape[0]), value=0.0)
