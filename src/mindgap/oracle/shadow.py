"""The two shadows of a graph on its inputs, with the bound of every operator on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from mindgap.aten.tensors import TORCH_DTYPES
from mindgap.graph import TensorSpec
from mindgap.oracle.bounds import bounds_of
from mindgap.oracle.float64 import Call, Float64Graph
from mindgap.oracle.precision import in_range, is_real, rounded, widen
from mindgap.oracle.undefined import undefined_masks

CASTS = frozenset({"to", "_to_copy", "type_as", "copy"})
#: Decisions to impose: value number -> the tensor somebody chose.
Decisions = Mapping[int, torch.Tensor]


@dataclass(frozen=True)
class Stepwise:
    """S. `values`: every value in its declared dtype. By value number: errors, hazards, undefined elements;
    `residual`: what rounding took off each operator's exact result."""

    values: dict[int, torch.Tensor]
    typical: dict[int, torch.Tensor] = field(default_factory=dict[int, torch.Tensor])
    hard: dict[int, torch.Tensor] = field(default_factory=dict[int, torch.Tensor])
    hazards: dict[int, torch.Tensor] = field(default_factory=dict[int, torch.Tensor])
    undefined: dict[int, torch.Tensor] = field(default_factory=dict[int, torch.Tensor])
    residual: dict[int, torch.Tensor] = field(default_factory=dict[int, torch.Tensor])

    def exact(self, number: int) -> torch.Tensor:
        """An operator's result on S's operands before it was rounded."""
        step = self.wide(number)
        return step + self.residual[number] if number in self.residual else step

    def wide(self, number: int) -> torch.Tensor:
        """A value in float64 (or as it is, where it is no float)."""
        return widen(self.values[number])


def stepwise(
    graph: Float64Graph, inputs: Sequence[torch.Tensor], decisions: Decisions | None = None, hard: bool = False
) -> Stepwise:
    """S: each operator in float64, rounded once to its declared dtype; with the error bounds on the way.

    `hard`: keep the hard bounds too (what a cut is judged by).
    """
    kept = Stepwise(dict(enumerate(inputs)))
    starts = graph.graph.first_value
    decisions = decisions or {}

    def before(index: int, call: Call, args: list[Any], kwargs: dict[str, Any], results: list[Any]) -> None:
        first = starts[index]
        for slot, bound in enumerate(bounds_of(call, args, kwargs, results)):
            if bound is None:
                continue
            kept.typical[first + slot] = _compact(bound.typical, call.node.outputs[slot])
            if hard:
                kept.hard[first + slot] = _compact(bound.hard, call.node.outputs[slot])
            if bound.hazard is not None:
                kept.hazards[first + slot] = bound.hazard
        for slot, mask in undefined_masks(call, args, kwargs, results).items():
            kept.undefined[first + slot] = mask
        for slot in range(len(results)):
            if (hazard := kept.hazards.get(first + slot)) is not None:
                # An infinite intermediate may end as NaN, as Inf or as zero, and so may all that follows from it.
                hazard = hazard.expand(results[slot].shape)
                kept.undefined[first + slot] = hazard | kept.undefined.get(first + slot, hazard)

    def after(index: int, results: list[Any]) -> list[Any]:
        call, first = graph.calls[index], starts[index]
        settled = [round_to(y, spec) for y, spec in zip(results, call.node.outputs, strict=True)]
        settled = impose(first, settled, decisions)
        for slot, y in enumerate(settled):
            spec = call.node.outputs[slot]
            if isinstance(y, torch.Tensor):
                kept.values[first + slot] = y.to(TORCH_DTYPES[spec.dtype]) if spec is not None else y
            if first + slot in kept.typical or call.packet in CASTS:
                _keep_residual(kept, first + slot, results[slot], y)
        return settled

    graph.run(inputs, after, before=before)
    return kept


def _keep_residual(kept: Stepwise, number: int, exact: Any, settled: Any) -> None:
    """float32 is enough: a residual is a small part of an ulp of the result. Infinite ones are left out."""
    if not isinstance(exact, torch.Tensor) or not exact.is_floating_point() or exact.dtype != settled.dtype:
        return
    residual = exact - settled
    if bool((residual != 0).any()):
        kept.residual[number] = torch.nan_to_num(residual, nan=0.0, posinf=0.0, neginf=0.0).to(torch.float32)


def wide(
    graph: Float64Graph,
    inputs: Sequence[torch.Tensor],
    decisions: Decisions | None = None,
    keep: frozenset[int] = frozenset(),
) -> dict[int, Any]:
    """W: float64 throughout; explicit casts keep the range of their target, not its rounding."""
    starts = graph.graph.first_value
    decisions = decisions or {}

    def after(index: int, results: list[Any]) -> list[Any]:
        call = graph.calls[index]
        if call.packet in CASTS:
            results = [ranged(y, spec) for y, spec in zip(results, call.node.outputs, strict=True)]
        return impose(starts[index], results, decisions)

    return graph.run(inputs, after, keep=keep)


def round_to(y: Any, spec: TensorSpec | None) -> Any:
    """The nearest values of the declared dtype; what is no float stays."""
    return (
        rounded(y, spec.dtype)
        if isinstance(y, torch.Tensor) and spec is not None and is_real(spec.dtype) and _real(y)
        else y
    )


def ranged(y: Any, spec: TensorSpec | None) -> Any:
    """Unrounded, infinite where the declared dtype overflows."""
    return (
        in_range(y, spec.dtype)
        if isinstance(y, torch.Tensor) and spec is not None and is_real(spec.dtype) and _real(y)
        else y
    )


def _real(y: torch.Tensor) -> bool:
    return y.is_floating_point() or y.is_complex()


def impose(first: int, results: list[Any], decisions: Decisions) -> list[Any]:
    """Results with decided values put in."""
    if not decisions:
        return results
    settled: list[Any] = [decisions.get(first + slot, y) for slot, y in enumerate(results)]
    return [y if y is None else widen(y) for y in settled]


def _compact(bound: torch.Tensor, spec: TensorSpec | None) -> torch.Tensor:
    """float32 holds a bound well enough, unless the values themselves are float64."""
    real = bound.real if bound.is_complex() else bound
    if spec is not None and spec.dtype in ("float64", "complex128"):
        return real.to(torch.float64).contiguous()
    return real.to(torch.float32).contiguous()
