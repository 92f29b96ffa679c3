"""Compares one output of a platform with its expectation and marks the elements that no rounding explains."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import torch

from mindgap.judge.oracle.evaluation.formats import FORMATS, Format, is_real, rounded, widen
from mindgap.judge.oracle.float_classes import FINITE, all_finite, class_bits

#: A benign error never passed 11.6 σ in the prototype's singles; 8 would have raised false alarms (LAB).
SIGMAS: Final = 16.0
#: Median error over σ from which an output is wrong in bulk, and how many elements make a bulk.
BULK_RATIO: Final = 8.0
BULK_SIZE: Final = 16
#: Relative error up to which a few float64 elements were computed in float32: a handful of its roundings.
_SINGLE: Final = 16 * 2.0**-24


@dataclass(frozen=True)
class Expectation:
    """What one output may be: both shadows, σ, the classes seen, values seen (discrete), tainted elements.

    `sigma` is zero where nothing upstream rounds. `declared`: the shape that the graph declares, where a kernel of
    float64 gives another one. `exact`: no operator on the way rounds at all, casts apart, so that each element has one
    right answer.
    """

    dtype: str
    step: torch.Tensor
    wide: torch.Tensor
    sigma: torch.Tensor
    classes: torch.Tensor
    seen: tuple[torch.Tensor, ...]
    tainted: torch.Tensor | None = None
    declared: tuple[int, ...] | None = None
    exact: bool = False


@dataclass(frozen=True)
class Examined:
    """One output examined.

    `kind`: `calm`, `discrepant` (beyond 16 σ, or a discrete value that none of the replays gave), `exceptional`,
    `structural`. `bad`: mask of offending elements. `worst`: largest error in σ. `median`: median error in typical σ
    (None under 16 elements); `single`: of so few float64 elements, whether float32 explains them. `ill`: σ is as large
    as the values. `relative`: root mean square error over value, for suspects. `tainted`: mismatches that lie in
    undefined elements. `tied`: elements that are another choice among exactly equal ones. `silent`: the shadow has
    another shape than the graph declares, so that nothing is known of the values; `ill` goes with it.
    `scalars_rounded`: the dtypes to which scalar operands have to be rounded to explain the result, "" for one that
    stays as it is; empty where none has to be.
    """

    kind: str
    bad: torch.Tensor | None = None
    worst: float = 0.0
    median: float | None = None
    single: bool = False
    ill: bool = False
    tainted: int = 0
    relative: float = 0.0
    tied: int = 0
    silent: bool = False
    scalars_rounded: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many elements offend."""
        return 0 if self.bad is None else int(self.bad.sum())


#: The shadow's note on a value whose shape it does not have.
SILENT: Final = Examined("calm", ill=True, silent=True)


def expect_floor(sigma: torch.Tensor, size: torch.Tensor) -> torch.Tensor:
    """σ floored by half its channel's median and a tenth of the tensor's: replays are a small sample.

    Channels are dimension 1 of images (4 and 5 dimensions), the last one otherwise. Infinite σ raise no floor. `size`:
    the values' magnitudes. A floor is no larger, relative to its element, than σ is for the median element: next to
    numbers of size 1 a result of 1e-9 has errors of its size.
    """
    if sigma.numel() < 2:
        return sigma
    known = sigma if all_finite(sigma) else torch.nan_to_num(sigma, posinf=0.0)
    floor = torch.full((), 0.1, dtype=sigma.dtype) * known.median()
    if sigma.dim() >= 2:
        channel = 1 if sigma.dim() >= 4 else sigma.dim() - 1
        by_channel = known.movedim(channel, 0).flatten(1)
        if by_channel.shape[1] >= 4:
            medians = by_channel.median(1).values
            shape = [1] * sigma.dim()
            shape[channel] = -1
            floor = torch.maximum(floor, 0.5 * medians.reshape(shape))
    some = size > 0
    share = (known[some] / size[some]).median() if bool(some.any()) else torch.zeros(())
    return torch.maximum(sigma, torch.minimum(floor, share * size))


def examine(expected: Expectation, got: torch.Tensor, typical: torch.Tensor | None = None) -> Examined:
    """Compares one output with what it may be. dtype and shape decide first: the shape may be the shadow's, or the one
    that the graph declares.

    `typical`: measure the median in this σ instead of the one that sets the limit.
    """
    name = str(got.dtype).removeprefix("torch.")
    if name != expected.dtype or tuple(got.shape) not in (tuple(expected.step.shape), expected.declared):
        return Examined("structural")
    if got.shape != expected.step.shape:
        return SILENT
    if got.numel() == 0:
        return Examined("calm")
    if not is_real(expected.dtype):
        return _examine_discrete(expected, got)
    wide = widen(got)
    if torch.equal(wide, expected.step) and typical is not None:
        return Examined("calm", median=0.0)
    return _examine_float(expected, wide, typical)


def _examine_discrete(expected: Expectation, got: torch.Tensor) -> Examined:
    fits = torch.zeros(got.shape, dtype=torch.bool)
    candidates = [expected.step, expected.wide, *expected.seen]
    for value in candidates:
        if value.shape == got.shape:
            fits |= value == got
    bad, tainted = _spare_tainted(~fits, expected.tainted)
    return Examined(
        "discrepant" if bool(bad.any()) else "calm",
        bad,
        worst=float("inf") if bool(bad.any()) else 0.0,
        tainted=tainted,
    )


def _examine_float(expected: Expectation, got: torch.Tensor, typical: torch.Tensor | None) -> Examined:
    fmt = FORMATS[expected.dtype]
    bits = class_bits(got)
    allowed = expected.classes | class_bits(expected.step) | class_bits(expected.wide)
    wrong_class, tainted_class = _spare_tainted((bits & allowed) == 0, expected.tainted)
    error, measurable = nearest_error(expected, got, bits)
    size = _size(expected)
    # Hard bounds of one operator are computed; only σ from replays is a sample.
    sigma = expect_floor(expected.sigma, size) if typical is None else expected.sigma
    wrong = _not_exact(expected, got, fmt) if expected.exact else error > _limit(sigma, size, fmt)
    beyond, tainted_value = _spare_tainted(wrong, expected.tainted)
    kind = "exceptional" if bool(wrong_class.any()) else "discrepant" if bool(beyond.any()) else "calm"
    if expected.tainted is not None:
        measurable = ~expected.tainted if measurable is None else measurable & ~expected.tainted
    scaled = _at(error / (sigma + fmt.u * size / 4 + fmt.tiny), measurable)
    worst = float(scaled.max()) if scaled.numel() else 0.0
    if typical is not None:
        scaled = _at(error / (typical + fmt.u * size / 4 + fmt.tiny), measurable)
    median = float(scaled.median()) if scaled.numel() >= BULK_SIZE else None
    suspect = kind != "calm" or (median is not None and median > BULK_RATIO)
    relative = _relative(error, size, measurable) if suspect else 0.0
    return Examined(
        kind,
        wrong_class | beyond,
        worst=float("inf") if kind == "exceptional" else worst,
        median=median,
        single=kind == "discrepant" and median is None and fmt.u < 2.0**-50 and relative <= _SINGLE,
        ill=typical is None and _ill_conditioned(expected, size, sigma),
        tainted=tainted_class + tainted_value,
        relative=relative,
    )


def _limit(sigma: torch.Tensor, size: torch.Tensor, fmt: Format) -> torch.Tensor:
    """How far an element may be from the nearer shadow: 16 σ and one rounding of the result."""
    # Where subnormals are flushed, operands and intermediates lose some smallest normals of the accumulator.
    return SIGMAS * sigma + 2 * fmt.u * size + fmt.tiny + 64 / fmt.largest_acc


def rounding_limit(expected: Expectation) -> torch.Tensor:
    """Returns how far each element of a float output may be from its exact value before it is beyond rounding."""
    size = _size(expected)
    return _limit(expect_floor(expected.sigma, size), size, FORMATS[expected.dtype])


def _not_exact(expected: Expectation, got: torch.Tensor, fmt: Format) -> torch.Tensor:
    """Elements that are neither S's, nor W's rounded once, nor a subnormal flushed to zero.

    A cast may round to a wider format first, as PyTorch's own do: that moves what lies next to a tie, not on it.
    """
    once = rounded(expected.wide, expected.dtype)
    twice = (fmt.u_acc if fmt.narrow else 2.0**-52) * expected.wide.abs()
    further = (got - expected.wide).abs() - (once - expected.wide).abs()
    right = (got == expected.step) | (got == once) | ((further != 0) & (further <= twice))
    flushed = (got == 0) & ((expected.step.abs() < fmt.tiny) | (once.abs() < fmt.tiny))
    return ~(right | flushed) & torch.isfinite(got) & torch.isfinite(expected.step)


def _size(expected: Expectation) -> torch.Tensor:
    """The larger magnitude of the two shadows, 0 for what is not finite."""
    size = torch.maximum(expected.step.abs(), torch.nan_to_num(expected.wide.abs(), posinf=0.0))
    return size if all_finite(size) else torch.nan_to_num(size, posinf=0.0)


def nearest_error(
    expected: Expectation, got: torch.Tensor, bits: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Distance to the nearer finite shadow, and where it can be measured at all (0 elsewhere); None for everywhere."""
    to_step, to_wide = (got - expected.step).abs(), (got - expected.wide).abs()
    if all_finite(to_step) and all_finite(to_wide):
        return torch.minimum(to_step, to_wide), None
    to_step = torch.where(torch.isfinite(expected.step), to_step, torch.inf)
    to_wide = torch.where(torch.isfinite(expected.wide), to_wide, torch.inf)
    error = torch.minimum(to_step, to_wide)
    measurable = (bits == FINITE) & torch.isfinite(error)
    return torch.where(measurable, error, 0.0), measurable


def _at(values: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """The values where the mask holds, all of them without one."""
    return values.flatten() if mask is None else values[mask]


def ill_conditioned(expected: Expectation, growth: float = 1.0) -> bool:
    """σ, grown by a factor, is as large as the values."""
    size = _size(expected)
    return _ill_conditioned(expected, size, growth * expect_floor(expected.sigma, size))


def _ill_conditioned(expected: Expectation, size: torch.Tensor, sigma: torch.Tensor) -> bool:
    """For most elements 16 σ covers the value itself and the tensor's own scale."""
    finite = None if all_finite(expected.step) else torch.isfinite(expected.step)
    sizes, sigmas = _at(size, finite), _at(sigma, finite)
    if not sizes.numel() or not bool((sigma > 0).any()):
        return False
    scale = sizes.square().mean().sqrt()
    return int((SIGMAS * sigmas > torch.maximum(sizes, scale)).sum()) > 0.5 * sizes.numel()


def _relative(error: torch.Tensor, size: torch.Tensor, measurable: torch.Tensor | None) -> float:
    """Root mean square error over root mean square value; infinite for an error where every value is 0."""
    errors, sizes = _at(error, measurable), _at(size, measurable)
    if not errors.numel():
        return 0.0
    wrong, scale = float(errors.square().mean().sqrt()), float(sizes.square().mean().sqrt())
    return wrong / scale if scale > 0 else math.inf if wrong > 0 else 0.0


def _spare_tainted(bad: torch.Tensor, tainted: torch.Tensor | None) -> tuple[torch.Tensor, int]:
    if tainted is None:
        return bad, 0
    return bad & ~tainted, int((bad & tainted).sum())
