"""Computes the stepwise shadow S with the bounds of every operator, and the wide shadow W."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import torch

from mindgap.aten.tensors import TORCH_DTYPES
from mindgap.graph import TensorSpec, operands
from mindgap.judge.oracle.bounds.rules import bounds_of
from mindgap.judge.oracle.evaluation.float64 import BoundCall, Float64Graph
from mindgap.judge.oracle.evaluation.formats import widen
from mindgap.judge.oracle.shadows.result_rounding import Decisions, impose, kept_in_range, leaves_range, round_results
from mindgap.judge.oracle.shadows.segments import crossing, recomputed, segment_bytes
from mindgap.judge.oracle.shadows.undefined import undefined_masks

Kind = Literal["values", "typical", "hard", "hazards", "strict", "residual"]
#: Which bounds replays inject.
Noise = Literal["typical", "hard"]
_KINDS: Final[tuple[Kind, ...]] = ("values", "typical", "hard", "hazards", "strict", "residual")


def _none() -> dict[int, torch.Tensor]:
    return {}


@dataclass(frozen=True)
class ShadowSegment:
    """S over one segment, by value number. `values`: in their declared dtypes. `residual`: what rounding took off each
    operator's exact result. `measured`: by node, why no rule gave its bounds. `out_of_range`: the nodes whose results
    leave the range of their dtype."""

    values: dict[int, torch.Tensor] = field(default_factory=_none)
    typical: dict[int, torch.Tensor] = field(default_factory=_none)
    hard: dict[int, torch.Tensor] = field(default_factory=_none)
    hazards: dict[int, torch.Tensor] = field(default_factory=_none)
    strict: dict[int, torch.Tensor] = field(default_factory=_none)
    residual: dict[int, torch.Tensor] = field(default_factory=_none)
    undefined: dict[int, torch.Tensor] = field(default_factory=_none)
    measured: dict[int, str] = field(default_factory=dict[int, str])
    out_of_range: set[int] = field(default_factory=set[int])


class Stepwise:
    """S: each operator in float64, rounded once to its declared dtype; with the error bounds on the way.

    `values`, `typical`, `hard`, `hazards`, `strict`, `residual`, `undefined`: tensors by value number. Always held are
    inputs, the values of `keep`, those that cross a border (`recomputed` apart) and undefined elements; of the others
    the segments last used, up to `most_bytes` or one. The rest is computed again when it is needed: go through
    a graph in its order.
    `noise`: the bounds that replays inject, which are also held as a whole where that is given.
    """

    def __init__(
        self,
        graph: Float64Graph,
        inputs: Sequence[torch.Tensor],
        parts: Sequence[range],
        keep: frozenset[int] = frozenset(),
        decisions: Decisions | None = None,
        noise: Noise | None = None,
        most_bytes: int = 0,
    ) -> None:
        self._noise: tuple[Noise | None, dict[int, torch.Tensor]] = noise, {}
        self._graph, self._decisions = graph, decisions or {}
        self.parts = tuple(parts)
        self._home = [number for number, nodes in enumerate(parts) for _ in nodes]
        self._kept = dict(enumerate(inputs))
        self._known: dict[Kind, set[int]] = {kind: set() for kind in _KINDS}
        self._known["values"].update(self._kept)
        self._loaded: dict[int, ShadowSegment] = {}
        self._most_bytes = most_bytes
        self._bytes = [segment_bytes(graph.graph, nodes) for nodes in parts]
        self.undefined: dict[int, torch.Tensor] = {}
        #: Nodes whose bounds were measured on perturbed operands, and why no rule gave them.
        self.measured: dict[int, str] = {}
        #: Nodes of which some result on finite operands is too large or too small for its dtype.
        self.out_of_range: set[int] = set()
        #: Of each value that rounds: its elements, and the parts of a number (2 for a complex one).
        self.sizes: dict[int, tuple[int, int]] = {}
        self.values, self.typical, self.hard, self.hazards, self.strict, self.residual = (
            _Held(self, kind) for kind in _KINDS
        )
        self._recomputed = recomputed(graph.graph, parts)
        borders = crossing(graph.graph, parts) - self._recomputed.keys() | keep
        for part in range(len(parts)):
            self._learn(self._load(part), borders)

    def _learn(self, piece: ShadowSegment, borders: frozenset[int]) -> None:
        self._kept.update({number: y for number, y in piece.values.items() if number in borders})
        self.undefined.update(piece.undefined)
        self.measured.update(piece.measured)
        self.out_of_range |= piece.out_of_range
        if self._noise[0] is not None:
            self._noise[1].update(getattr(piece, self._noise[0]))
        for number in piece.typical:
            y = piece.values[number]
            self.sizes[number] = (y.numel(), 2 if y.is_complex() else 1)
        for kind in _KINDS:
            self._known[kind].update(getattr(piece, kind))

    def exact(self, number: int) -> torch.Tensor:
        """An operator's result on S's operands before it was rounded."""
        step = self.wide(number)
        return step + self.residual[number] if number in self.residual else step

    def wide(self, number: int) -> torch.Tensor:
        """A value in float64 (or as it is, where it is no float)."""
        return widen(self.values[number])

    def release(self) -> None:
        """Drops the segments that are held. They are computed again when they are needed."""
        self._loaded.clear()

    def holds(self, noise: Noise) -> bool:
        """Whether these bounds are held for the whole graph."""
        return len(self.parts) == 1 or self._noise[0] == noise

    def known(self, kind: Kind) -> set[int]:
        """Returns the numbers of the values that have a tensor of this kind."""
        return self._known[kind]

    def find(self, kind: Kind, number: int) -> torch.Tensor:
        """Returns the tensor of this kind for one value. Raises `KeyError`."""
        if kind == "values" and number in self._kept:
            return self._kept[number]
        if kind == self._noise[0]:
            return self._noise[1][number]
        if number not in self._known[kind]:
            raise KeyError(number)
        return getattr(self._load(self._home[self._graph.graph.producer[number]]), kind)[number]

    def _load(self, part: int) -> ShadowSegment:
        piece = self._loaded.pop(part, None)
        if piece is None:
            # Graphs are gone through in order again and again: the last but one goes, and the next round finds the
            # others.
            while self._loaded and sum(self._bytes[p] for p in (*self._loaded, part)) > self._most_bytes:
                newest = list(self._loaded)[-2:]
                del self._loaded[newest[0]]
            piece = _shadow_segment(self._graph, self.parts[part], self._values_before(part), self._decisions)
        self._loaded[part] = piece
        return piece

    def _values_before(self, part: int) -> dict[int, Any]:
        """The values that are known before a segment, those that it reads and that are not held computed again."""
        values: dict[int, Any] = dict(self._kept)
        nodes, graph = self.parts[part], self._graph.graph
        read = {n for i in nodes for n in operands(graph.nodes[i]) if graph.producer[n] not in nodes}
        chain = {node for number in read - values.keys() for node in self._recomputed[number]}

        def after(index: int, results: list[Any]) -> list[Any]:
            call = self._graph.calls[index]
            final = impose(call, graph.first_value[index], round_results(call, results), self._decisions)
            specs = graph.nodes[index].outputs
            return [_as_declared(y, s) if isinstance(y, torch.Tensor) else y for y, s in zip(final, specs, strict=True)]

        for index in sorted(chain):
            self._graph.advance(range(index, index + 1), values, after)
        return values


class _Held(Mapping[int, torch.Tensor]):
    """One kind of S's tensors, by value number."""

    def __init__(self, step: Stepwise, kind: Kind) -> None:
        self._step = step
        self._kind: Kind = kind

    def __getitem__(self, number: int) -> torch.Tensor:
        return self._step.find(self._kind, number)

    def __contains__(self, number: object) -> bool:
        return number in self._step.known(self._kind)

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._step.known(self._kind)))

    def __len__(self) -> int:
        return len(self._step.known(self._kind))


def _shadow_segment(graph: Float64Graph, nodes: range, values: dict[int, Any], decisions: Decisions) -> ShadowSegment:
    """S over these nodes, from the values that they read."""
    made = ShadowSegment()
    starts = graph.graph.first_value

    def before(index: int, call: BoundCall, args: list[Any], kwargs: dict[str, Any], results: list[Any]) -> None:
        first = starts[index]
        bounds = bounds_of(call, args, kwargs, results)
        if bounds.missing:
            made.measured[index] = bounds.missing
        for slot, bound in enumerate(bounds.slots):
            if bound is None:
                continue
            made.typical[first + slot] = _compact(bound.typical, call.node.outputs[slot])
            made.hard[first + slot] = _compact(bound.hard, call.node.outputs[slot])
            if bound.hazard is not None:
                made.hazards[first + slot] = bound.hazard
            if bound.strict is not None:
                made.strict[first + slot] = _uniform(bound.strict)
        for slot, mask in undefined_masks(call, args, kwargs, results).items():
            made.undefined[first + slot] = _uniform(mask)
        for slot in range(len(results)):
            if (hazard := made.hazards.get(first + slot)) is not None:
                # An infinite intermediate may end as NaN, as Inf or as zero, and so may all that follows from it.
                hazard = hazard.expand(results[slot].shape)
                made.undefined[first + slot] = _uniform(hazard | made.undefined.get(first + slot, hazard))

    def after(index: int, results: list[Any]) -> list[Any]:
        call, first = graph.calls[index], starts[index]
        final = impose(call, first, round_results(call, results), decisions)
        for slot, y in enumerate(final):
            if isinstance(y, torch.Tensor):
                made.values[first + slot] = _as_declared(y, call.node.outputs[slot])
            if leaves_range(results[slot], y, call.node.outputs[slot]):
                made.out_of_range.add(index)
            if first + slot in made.typical or call.traits.casts:
                _keep_residual(made, first + slot, results[slot], y, first + slot not in made.typical)
        return final

    graph.advance(nodes, values, after, before=before)
    return made


def _as_declared(y: torch.Tensor, spec: TensorSpec | None) -> torch.Tensor:
    return y.to(TORCH_DTYPES[spec.dtype]) if spec is not None else y


def _keep_residual(made: ShadowSegment, number: int, exact: Any, final: Any, only_cast: bool) -> None:
    """float32 is enough: a residual is a small part of an ulp of the result. Infinite ones are left out.

    `only_cast`: which side of a tie the exact value lies on matters, and takes all bits.
    """
    if not isinstance(exact, torch.Tensor) or not exact.is_floating_point() or exact.dtype != final.dtype:
        return
    residual = exact - final
    if bool((residual != 0).any()):
        kept = torch.nan_to_num(residual, nan=0.0, posinf=0.0, neginf=0.0)
        made.residual[number] = kept if only_cast else kept.to(torch.float32)


def _uniform(mask: torch.Tensor) -> torch.Tensor:
    """The same mask, in one byte where it holds everywhere."""
    return torch.ones((), dtype=torch.bool).expand(mask.shape) if bool(mask.all()) else mask


def _compact(bound: torch.Tensor, spec: TensorSpec | None) -> torch.Tensor:
    """float32 holds a bound well enough, unless the values themselves are float64."""
    real = bound.real if bound.is_complex() else bound
    if spec is not None and spec.dtype in ("float64", "complex128"):
        return real.to(torch.float64).contiguous()
    return real.to(torch.float32).contiguous()


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
        if call.traits.casts:
            results = [kept_in_range(y, spec) for y, spec in zip(results, call.node.outputs, strict=True)]
        return impose(call, starts[index], results, decisions)

    return graph.run(inputs, after, keep=keep)
