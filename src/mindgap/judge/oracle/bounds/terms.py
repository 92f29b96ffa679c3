"""Shared formulas: sums of terms, magnitudes of operands, numbers rounded to a narrow dtype."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, TypeGuard

import torch

from mindgap.aten.tensors import TORCH_DTYPES
from mindgap.judge.oracle.bounds.rules import Bound, Site

#: The part of Σ|x| that a hard bound counts: partial sums are that large only where the terms are sorted by sign.
STRUCTURED: Final = 16.0


#: Up to how many equal terms may be added one after the other in the accumulator's format.
_SEQUENTIAL: Final = 32768.0


def one_sided(terms: float | torch.Tensor) -> torch.Tensor:
    """K/64: of K equal terms summed one after the other all roundings may point one way, u·K/2·|y| in 16 bounds of 2u.

    Under a root, half of that.
    """
    return torch.as_tensor(terms, dtype=torch.float64).clamp_max(_SEQUENTIAL) / 64


def summed(
    site: Site, hard_sum: torch.Tensor, two_norm: torch.Tensor, terms: float | torch.Tensor
) -> list[Bound | None]:
    """The formula of `bounds` for a first result y = Σx with Σ|x|, ‖x‖₂ and K given; other results are exact."""
    first = sum_of_terms(site, site.results[0], hard_sum, two_norm, terms, site.u)
    return [first, *([None] * (len(site.results) - 1))]


def exact_sums(site: Site, operands: int, hard_sum: torch.Tensor) -> torch.Tensor | None:
    """The elements whose sum of products of whole numbers is exact in whichever order it is taken: Σ|x|, `hard_sum`, is
    no larger than 1/u, up to which the accumulator's format holds every whole number. None where an operand among the
    first `operands` has fractions."""
    given = [*site.args[:operands], *(v for k, v in site.kwargs.items() if k in ("alpha", "beta"))]
    if site.call.large is not None or not all(map(_whole, given)):
        return None
    return hard_sum <= 1 / site.u


def _whole(operand: Any) -> bool:
    if isinstance(operand, torch.Tensor):
        if not operand.is_floating_point():
            return not operand.is_complex()
        return all(bool((part == part.round()).all()) for part in (operand.flatten()[:32], operand))
    return operand is None or (isinstance(operand, (int, float)) and float(operand).is_integer())


def without_noise(bound: Bound | None, exact: torch.Tensor | None, strict: torch.Tensor | None = None) -> Bound | None:
    """A bound whose typical error is zero in exact elements. `strict`: as in `Bound`."""
    if bound is None or exact is None:
        return bound
    return replace(bound, typical=bound.typical.masked_fill(exact, 0.0), strict=strict)


def absolute(operand: Any) -> Any:
    if isinstance(operand, torch.Tensor):
        return operand.abs() if operand.dtype != torch.bool else operand
    return abs(operand) if isinstance(operand, (int, float, complex)) else operand


def squared(operand: Any) -> Any:
    if not isinstance(operand, torch.Tensor):
        return operand
    return operand.abs().square() if operand.is_complex() else operand.square()


def declared_dtype(site: Site) -> str:
    return next((s.dtype for s in site.call.node.outputs if s is not None), "")


def coarse_scalar(site: Site, operand: object) -> float:
    """Error of a number or a 0-d tensor in units of u·|scalar|: it may be rounded to the narrow dtype of the result."""
    if site.scalars_kept or site.u_out <= site.u or not is_scalar(operand):
        return 0.0
    value = float(operand)
    rounds = float(torch.tensor(value, dtype=torch.float64).to(TORCH_DTYPES[declared_dtype(site)])) != value
    return site.u_out / site.u if rounds else 0.0


def is_scalar(operand: object) -> TypeGuard[float | torch.Tensor]:
    """Whether it is a floating-point number or a 0-d tensor of one."""
    return isinstance(operand, float) or (
        isinstance(operand, torch.Tensor) and operand.dim() == 0 and operand.is_floating_point()
    )


def magnitude(operand: object) -> torch.Tensor | float:
    """|operand| of a tensor or a number, 0 for anything else."""
    if isinstance(operand, torch.Tensor):
        return operand.abs() if operand.dtype != torch.bool else operand.to(torch.float64)
    return abs(operand) if isinstance(operand, (int, float, complex)) else 0.0


def is_complex(operand: object) -> bool:
    return isinstance(operand, complex) or (isinstance(operand, torch.Tensor) and operand.is_complex())


def sum_of_terms(
    site: Site, y: torch.Tensor, hard: torch.Tensor, norm: torch.Tensor, terms: float | torch.Tensor, u: float
) -> Bound:
    """A sum of `terms` terms with Σ|x| = `hard` and ‖x‖₂ = `norm`; see `bounds`."""
    reach = u * torch.as_tensor(terms, dtype=torch.float64).clamp_min(1.0).sqrt()
    over = hard > site.largest / 4
    hazard = over if bool(over.any()) else None
    typical = reach * (y.abs() + norm) + u * y.abs()
    # Partial sums that grow one way, of equal terms at worst: more than signs at random would leave of them.
    grown = 2 * u * one_sided(terms) * (y.abs() - 4 * norm).clamp_min(0.0)
    return Bound(typical, typical + reach * hard / STRUCTURED + grown, hazard)


def finite(t: torch.Tensor) -> torch.Tensor:
    return torch.nan_to_num(t, nan=0.0, posinf=0.0, neginf=0.0)
