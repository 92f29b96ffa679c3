"""Bound rules: how far from the exact result of one operator a correct implementation may be.

A rule takes a node's operands and its exact results, both in float64, and gives for each result the *typical*
error (for random signs of the rounding errors) and the *hard* one (for the worst signs), absolute and elementwise:

    typical = u·√K·(|y| + ‖x‖₂) + u·|y|        hard = u·√K·(|y| + ‖x‖₂ + Σ|x|/16) + u·|y|

A sum of one sign has |y| = Σ|x|, and partial sums as large, in whichever order it is taken. Of mixed signs they stay
near |y| + ‖x‖₂ in most orders and reach Σ|x|/2 in the worst, with all positive terms first: there the limit of 16 hard
bounds is u·√K·Σ|x|, eight times what rounding at random makes of it. K is the reduction length, x the terms that are
summed, u the unit roundoff of the format the sum is kept in (Higham, *Accuracy and Stability of Numerical Algorithms*,
§3-4). Operators that only move or choose data are exact. Rules are registered by operator packet, one file per
family. An operator without a rule is bounded by its response to operands perturbed in their last bits, and is reported
as a `Weakness`. `benchmarks/bound_sweep.py` measures how much wider the bounds are than what correct
implementations show; `docs/metrics.md` has its figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import torch

from mindgap.graph import TensorSpec
from mindgap.graph.operators import traits
from mindgap.judge.oracle.bounds.overflow import out_of_range
from mindgap.judge.oracle.bounds.promises import promised_error
from mindgap.judge.oracle.evaluation.float64 import BoundCall, OracleError, OracleMemoryError, evaluate, first_line
from mindgap.judge.oracle.evaluation.formats import FORMATS, is_real
from mindgap.judge.oracle.evaluation.step_noise import StepNoise


@dataclass(frozen=True, slots=True)
class Bound:
    """Typical and hard error of one result, same shape, float64, before rounding to a narrow dtype.

    `hazard`: elements whose intermediates may leave the accumulator's range: anything is legal there. `strict`:
    elements that every correct implementation of the operator by itself gives exactly. A factor that follows may be
    folded into the operands of this one, so that among others it has its hard error.
    """

    typical: torch.Tensor
    hard: torch.Tensor
    hazard: torch.Tensor | None = None
    strict: torch.Tensor | None = None


@dataclass(frozen=True, slots=True)
class OperatorBounds:
    """A bound per result slot, None where the result must be exact (or is no float).

    `missing`: why no rule of the operator gave them, empty where one did.
    """

    slots: list[Bound | None]
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Site:
    """One operator application: what a rule may look at. `scalars_kept`: no scalar operand is rounded first."""

    call: BoundCall
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    results: Sequence[Any]
    u: float
    u_out: float
    largest: float
    scalars_kept: bool = False

    def arg(self, position: int, name: str, default: Any = None) -> Any:
        """An argument by position or name."""
        if position < len(self.args):
            return self.args[position]
        return self.kwargs.get(name, default)

    def again(self, *args: Any) -> torch.Tensor:
        """The first result of the same operator on other leading arguments."""
        return evaluate(self.call, [*args, *self.args[len(args) :]], self.kwargs)[0]


#: What a defective rule raises. Recorded as a `Weakness`, never dropped.
RULE_ERRORS: Final = (IndexError, KeyError, TypeError, ValueError, RuntimeError, AttributeError, ArithmeticError)
#: A rule whose bounds were measured, for all calls or for some, returns `OperatorBounds` with the reason.
Rule = Callable[[Site], "list[Bound | None] | OperatorBounds"]
_RuleT = TypeVar("_RuleT", bound=Rule)
#: Of an operator without a rule.
_PERTURBATIONS: Final = 8
_RULES: Final[dict[str, Rule]] = {}


def rule(*packets: str) -> Callable[[_RuleT], _RuleT]:
    """Registers a rule for operator packets."""

    def register(function: _RuleT) -> _RuleT:
        for packet in packets:
            if packet in _RULES:
                raise ValueError(f"two bounds for {packet}")
            _RULES[packet] = function
        return function

    return register


def has_rule(packet: str) -> bool:
    """Whether this operator has a rule, which may measure the bound of some calls."""
    return _rule_of(packet) is not None


def _rule_of(packet: str) -> Rule | None:
    """The rule of an operator. What only moves data or casts is exact by its traits."""
    known = traits(packet)
    return _RULES.get(packet) or (exact if known.moves_data or known.casts else None)


def bounds_of(
    call: BoundCall, args: Sequence[Any], kwargs: Mapping[str, Any], results: Sequence[Any], *,
    kept_narrow: bool = False, scalars_kept: bool = False,
) -> OperatorBounds:  # fmt: skip
    """The bounds of one call, from its operands and its exact results in float64.

    `kept_narrow`: those of an implementation that rounds every step to the declared dtype, not to float32, where that
    has 16 bits or fewer. `scalars_kept`: of one that takes scalar operands as they are given here.
    """
    real = [s.dtype for s in call.node.outputs if s is not None and is_real(s.dtype)]
    if not real or not any(t.numel() for t in _tensors(results)):
        return OperatorBounds([None] * len(results))
    formats = [FORMATS[d] for d in real]
    # Operands narrower than the result are converted first: `softmax(x, dtype=float64)` of a float32 x.
    site = Site(
        call, args, kwargs, results,
        u=max(f.u for f in formats) if kept_narrow
        else min(FORMATS[d].u_acc for d in (*real, *call.dtypes) if is_real(d)) if call.traits.casts
        else max(f.u_acc for f in formats),
        u_out=max(f.u for f in formats),
        largest=min(f.largest_acc for f in formats),
        scalars_kept=scalars_kept,
    )  # fmt: skip
    operator_bounds = _apply(site)
    step = max(f.u * f.tiny for f in formats)
    slots = [
        _as_promised(site, b, y) for b, y in zip(operator_bounds.slots[:1], results[:1], strict=True)
    ] + operator_bounds.slots[1:]
    narrowed = [_narrow(site, b, y, step) for b, y in zip(slots, results, strict=True)]
    marked = [_ranged(site, b, y, s) for b, y, s in zip(narrowed, results, call.node.outputs, strict=True)]
    return OperatorBounds(marked, operator_bounds.missing)


def _as_promised(site: Site, bound: Bound | None, result: Any) -> Bound | None:
    """A bound whose limit, sixteen hard errors, is at least what the platform's language promises."""
    error = promised_error(site, result)
    if error is None:
        return bound
    least = error / 16
    return Bound(least, least) if bound is None else _wider(bound, Bound(least, least, bound.hazard))


def _ranged(site: Site, bound: Bound | None, result: Any, spec: TensorSpec | None) -> Bound | None:
    """With the elements marked whose intermediates may leave the accumulator's range."""
    if bound is None or spec is None:
        return bound
    ruled = has_rule(site.call.packet)
    alpha = site.arg(2, "alpha", 1)  # of sums, to which alone it is of interest
    args = site.args[1::-1] if site.call.packet == "rsub" else site.args  # scaled is the second
    mask = out_of_range(site.call.traits, args, result, spec.dtype, site.largest, ruled, alpha)
    if mask is None:
        return bound
    return replace(bound, hazard=mask if bound.hazard is None else mask | bound.hazard)


def _apply(site: Site) -> OperatorBounds:
    """The bounds that the operator's rule gives; measured ones, with the reason, where there is none or it fails.

    A rule that raises is defective: tests/mindgap/judge/oracle/test_every_rule.py runs all. Judging goes on, and the
    judgement reports the failure.
    """
    rule_found = _rule_of(site.call.packet)
    if rule_found is None:
        return _filled_up(site, perturbed(site, "the operator has no bound rule"))
    try:
        return _filled_up(site, rule_found(site))
    except OracleMemoryError:
        raise
    except (OracleError, *RULE_ERRORS) as error:
        return _filled_up(site, perturbed(site, f"{rule_found.__name__} raised {first_line(error)}"))


def _filled_up(site: Site, found: list[Bound | None] | OperatorBounds) -> OperatorBounds:
    """None for the slots that a rule leaves out."""
    slots, missing = (found.slots, found.missing) if isinstance(found, OperatorBounds) else (found, "")
    return OperatorBounds([*slots, *[None] * (len(site.results) - len(slots))], missing)


def _narrow(site: Site, bound: Bound | None, result: Any, step: float) -> Bound | None:
    """Narrow results are rounded once more: a computed value may fall on the other side of a tie.

    `step`: half the distance between subnormals, below which no rounding error shrinks.
    """
    if bound is None or not isinstance(result, torch.Tensor) or not (result.is_floating_point() or result.is_complex()):
        return None
    extra = site.u_out * result.abs() if site.u_out > site.u else 0.0
    typical = torch.nan_to_num(bound.typical + extra, nan=0.0, posinf=0.0)
    typical = torch.where(typical > 0, typical + step, typical)
    hard = torch.maximum(torch.nan_to_num(bound.hard + extra, nan=0.0, posinf=0.0), typical)
    return Bound(_shaped(typical, result), _shaped(hard, result), bound.hazard, bound.strict)


def _shaped(bound: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """An element for each of the result; one element may come in more dimensions than the result has."""
    return (bound.reshape(()) if bound.numel() == 1 else bound).expand(result.shape)


def relative(site: Site, factor: float, extra: torch.Tensor | float = 0.0) -> list[Bound | None]:
    """`factor`·u·|y| + u·extra, typical and hard alike, for every result."""
    results: list[Bound | None] = []
    for y in site.results:
        if _is_float(y):
            size = site.u * (factor * y.abs() + extra)
            results.append(Bound(size, size))
        else:
            results.append(None)
    return results


def exact(site: Site) -> list[Bound | None]:
    """The results are operands moved or chosen."""
    return [None] * len(site.results)


def perturbed(site: Site, reason: str) -> OperatorBounds:
    """Measures what backward stability allows, on operands perturbed by √K·u, K the terms per result.

    `reason`: why no rule derives the bounds; the judgement reports it as a `Weakness`.

    Eight random perturbations. For an operator composed of others eight more, of the results of those: its operands may
    be labels, which a perturbation changes to none. The hard bound is twice the largest response.
    """
    generator = torch.Generator().manual_seed(0x5EED)
    sizes = [t.numel() for t in _tensors([*site.args, *site.kwargs.values()])]
    outputs = max((t.numel() for t in _tensors(list(site.results))), default=1)
    terms = max(1.0, max(sizes, default=1) / max(outputs, 1))
    # Composite operators round every step to the dtype they declare.
    scale = 2 * max(site.u, site.u_out) * terms**0.5
    responses = _Responses(site)
    for _ in range(_PERTURBATIONS):
        args = [_shake(a, scale, generator) for a in site.args]
        responses.add(evaluate(site.call, args, {k: _shake(a, scale, generator) for k, a in site.kwargs.items()}))
    inner = _Responses(site)
    for _ in range(_PERTURBATIONS):
        with StepNoise(site.call.packet, max(site.u, site.u_out), generator) as noise:
            inner.add(evaluate(site.call, list(site.args), site.kwargs))
        if not noise.steps:
            return OperatorBounds(responses.bounds(), reason)
    wider = [_wider(a, b) for a, b in zip(responses.bounds(), inner.bounds(), strict=True)]
    return OperatorBounds(wider, reason)


class _Responses:
    """How far perturbed results of a call are from its exact ones, by slot."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._squares: list[Any] = [0.0] * len(site.results)
        self._largest: list[Any] = [0.0] * len(site.results)

    def add(self, results: Sequence[Any]) -> None:
        for slot, (shaken, y) in enumerate(zip(results, self._site.results, strict=True)):
            if not _is_float(y) or shaken.shape != y.shape:
                continue
            response = torch.nan_to_num((shaken - y).abs(), nan=0.0, posinf=0.0)
            self._squares[slot] = self._squares[slot] + response**2
            self._largest[slot] = torch.maximum(response, torch.as_tensor(self._largest[slot], dtype=response.dtype))

    def bounds(self) -> list[Bound | None]:
        """Typical: the root mean square, and 2u. Hard: twice the largest, and 2u. None where a result is no float."""
        results: list[Bound | None] = []
        for y, squares, largest in zip(self._site.results, self._squares, self._largest, strict=True):
            if not _is_float(y):
                results.append(None)
                continue
            own = 2 * self._site.u * y.abs()
            typical = (torch.as_tensor(squares) / _PERTURBATIONS).sqrt() + own
            results.append(Bound(typical, 2 * torch.as_tensor(largest) + own))
        return results


def _wider(one: Bound | None, other: Bound | None) -> Bound | None:
    if one is None or other is None:
        return one or other
    return Bound(torch.maximum(one.typical, other.typical), torch.maximum(one.hard, other.hard), other.hazard)


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _shake(arg: Any, scale: float, generator: torch.Generator) -> Any:
    if isinstance(arg, torch.Tensor) and (arg.is_floating_point() or arg.is_complex()):
        signs = torch.empty(arg.shape, dtype=torch.float64).bernoulli_(0.5, generator=generator) * 2 - 1
        return arg * (1 + scale * signs)
    if isinstance(arg, list):
        return [_shake(item, scale, generator) for item in arg]  # pyright: ignore[reportUnknownVariableType] # lists of anything
    return arg


def _tensors(args: Sequence[Any]) -> list[torch.Tensor]:
    tensors: list[torch.Tensor] = []
    for arg in args:
        if isinstance(arg, torch.Tensor):
            tensors.append(arg)
        elif isinstance(arg, (list, tuple)):
            tensors.extend(_tensors(list(arg)))  # pyright: ignore[reportUnknownArgumentType] # lists of anything
    return tensors
