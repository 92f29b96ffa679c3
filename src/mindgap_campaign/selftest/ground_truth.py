"""Measures the true effect of a fault on a graph, at its nodes and outputs, before anything is judged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import torch

from mindgap.aten.functional import functionalize
from mindgap.aten.tape import Tape, clone_strided, flatten_result
from mindgap.aten.tensors import TORCH_DTYPES, input_tensors
from mindgap.graph import Array, Graph
from mindgap.judge.oracle import Oracle
from mindgap.judge.oracle.evaluation.formats import FORMATS, is_real, widen
from mindgap.judge.oracle.examination import SIGMAS, expect_floor
from mindgap.judge.oracle.float_classes import class_bits
from mindgap.judge.oracle.single_operator import hard_alone, with_one_rounding
from mindgap.platforms.protocol import CompileFailure
from mindgap_campaign.faulty.injection import FaultInjector, injection_sites, meets
from mindgap_campaign.faulty.schema import AT_LOAD, Faults

#: Replays behind σ at the outputs.
_REPLAYS: Final = 64


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one node's results on right operands, relative to the two bounds of the operator."""

    hard: float
    typical: float


#: Another class, discrete value, shape or dtype, or no result at all.
_UTTER: Final = Change(math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of a fault. `at_node`: change by node. `at_output`: the largest over σ. `failed`: the graph fails."""

    at_node: dict[int, Change]
    at_output: float
    failed: bool = False

    @property
    def hard(self) -> float:
        """The largest change at a node, relative to its hard bound."""
        return max((change.hard for change in self.at_node.values()), default=0.0)

    @property
    def typical(self) -> float:
        """The largest change at a node, relative to its typical bound."""
        return max((change.typical for change in self.at_node.values()), default=0.0)

    @property
    def faulty_nodes(self) -> tuple[int, ...]:
        """The nodes that a fault changes past 16 typical bounds: a right culprit is one of them."""
        return tuple(sorted(n for n, change in self.at_node.items() if change.typical > SIGMAS))


class GroundTruth:
    """Holds a graph's right results on its inputs, the bounds of its nodes, and σ of its outputs."""

    def __init__(self, graph: Graph, inputs: Sequence[Array]) -> None:
        self.graph = graph
        self._inputs = input_tensors(graph, inputs)
        self._tape = Tape(graph)
        functional = functionalize(graph)
        self._oracle = Oracle(functional.graph, inputs)
        self._origin = functional.origin

    @cached_property
    def _right(self) -> list[torch.Tensor]:
        with torch.no_grad():
            return [t.clone() for t in self._tape.run(self._inputs)]

    def rounding_operators(self) -> list[str]:
        """Returns the operators whose float results all have bounds above zero everywhere."""
        room: dict[str, bool] = {}
        for index, node in enumerate(self.graph.nodes):
            for slot, spec in enumerate(node.outputs):
                if spec is None or not is_real(spec.dtype) or spec.numel == 0:
                    room[node.op] = False
                    continue
                number = self._number(index, slot, spec.dtype, spec.shape)
                bound = None if number is None else self._oracle.step.typical.get(number)
                room[node.op] = room.get(node.op, True) and bound is not None and bool((bound > 0).all())
        return [op for op, has_room in room.items() if has_room]

    def effect(self, faults: Faults) -> Effect:
        """Measures the effect of faults on this graph. Raises `Unsupported` if they refuse it."""
        try:
            sites = injection_sites(faults, self.graph, "")
        except CompileFailure:
            return Effect(dict.fromkeys(self._meant(faults), _UTTER), math.inf, failed=True)
        at_node = self._locally(FaultInjector(self.graph, sites))
        whole = FaultInjector(self.graph, sites)
        whole.begin()
        seen = _Position()
        try:
            with torch.no_grad():
                wrong = self._tape.run(self._inputs, call=seen.watching(whole))
        except Exception:
            # Whatever PyTorch raises on damaged values: the graph fails there.
            return Effect({**at_node, seen.at: _UTTER}, math.inf, failed=True)
        return Effect(at_node, self._at_outputs(wrong))

    def _meant(self, faults: Faults) -> list[int]:
        """Returns the nodes of faults at load."""
        at_load = [fault for fault in faults.fault if isinstance(fault, AT_LOAD)]
        nodes = enumerate(self.graph.nodes)
        return [index for index, node in nodes if any(meets(fault, node, index, "") for fault in at_load)]

    def _locally(self, injector: FaultInjector) -> dict[int, Change]:
        """Returns the change of each affected node's results on the right operands."""
        by_number: dict[int, Change] = {}
        injector.begin()

        def call(index: int, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
            if not injector.may_inject(index):
                return function(*args, **kwargs)
            copies = [_copied(a) for a in args], {k: _copied(v) for k, v in kwargs.items()}
            try:
                wrong = flatten_result(injector.call(index, function, *copies))
            except Exception:  # an injected failure, or PyTorch's on overridden arguments
                by_number[index] = _UTTER
                return function(*args, **kwargs)
            right = flatten_result(function(*args, **kwargs))
            changes = [self._change(index, slot, a, b) for slot, (a, b) in enumerate(zip(right, wrong, strict=True))]
            by_number[index] = Change(
                max((c.hard for c in changes), default=0.0), max((c.typical for c in changes), default=0.0)
            )
            return right if len(right) != 1 else right[0]

        with torch.no_grad():
            self._tape.run(self._inputs, call=call)
        return by_number

    def _change(self, index: int, slot: int, right: torch.Tensor | None, wrong: torch.Tensor | None) -> Change:
        still = Change(0.0, 0.0)
        if right is None or wrong is None:
            return still
        if right.dtype != wrong.dtype or right.shape != wrong.shape:
            return _UTTER
        name = str(right.dtype).removeprefix("torch.")
        if not is_real(name):
            return still if torch.equal(right, wrong) else _UTTER
        number = self._number(index, slot, name, tuple(right.shape))
        if number is None:
            return still  # Its bound is not known: whether it counts is unknown.
        step, zero = self._oracle.step, torch.zeros((), dtype=torch.float64)
        legal, hazard = class_bits(widen(right)), step.hazards.get(number)
        sizes = [
            with_one_rounding(found.to(torch.float64), widen(right), name) if found is not None else zero
            for found in (hard_alone(self._oracle, number), step.typical.get(number))
        ]
        return Change(*(_over(widen(right), widen(wrong), size, name, legal, hazard) for size in sizes))

    def _number(self, index: int, slot: int, dtype: str, shape: tuple[int, ...]) -> int | None:
        """Returns the number, in the functional graph, of a result of an original node."""
        graph = self._oracle.graph
        for node, original in enumerate(self._origin):
            if original == index and slot < len(graph.nodes[node].outputs):
                spec = graph.nodes[node].outputs[slot]
                if spec is not None and (spec.dtype, spec.shape) == (dtype, shape):
                    return graph.first_value[node] + slot
        return None

    def _at_outputs(self, wrong: Sequence[torch.Tensor]) -> float:
        worst = 0.0
        for number, a, b in zip(self._oracle.graph.outputs, self._right, wrong, strict=True):
            if a.dtype != b.dtype or a.shape != b.shape:
                return math.inf
            worst = max(worst, self._output_ratio(number, a, b))
        return worst

    def _output_ratio(self, number: int, right: torch.Tensor, wrong: torch.Tensor) -> float:
        expected = self._oracle.expectation(number, _REPLAYS)
        spared = expected.tainted if expected.tainted is not None else torch.zeros(right.shape, dtype=torch.bool)
        if not is_real(expected.dtype):
            new = right != wrong
            for seen in (expected.step, expected.wide, *expected.seen):
                new &= seen.to(TORCH_DTYPES[expected.dtype]) != wrong
            return math.inf if bool((new & ~spared).any()) else 0.0
        sigma = expect_floor(expected.sigma, torch.nan_to_num(widen(right).abs(), posinf=0.0)).to(torch.float64)
        legal = expected.classes | class_bits(widen(right)) | class_bits(expected.wide)
        return _over(widen(right), widen(wrong), sigma, expected.dtype, legal, expected.tainted)


class _Position:
    """Tracks which node ran last."""

    def __init__(self) -> None:
        self.at = -1

    def watching(self, injector: FaultInjector) -> Any:
        def call(index: int, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
            self.at = index
            return injector.call(index, function, args, kwargs)

        return call


def _over(
    right: torch.Tensor, wrong: torch.Tensor, size: torch.Tensor, dtype: str, legal: torch.Tensor,
    spared: torch.Tensor | None,
) -> float:  # fmt: skip
    """Returns the largest change in units of `size`, which is at least 1/16 of the last rounding's error."""
    counted = torch.ones(right.shape, dtype=torch.bool) if spared is None else ~spared.expand(right.shape)
    if bool((((class_bits(wrong) & legal) == 0) & counted).any()):
        return math.inf
    fmt = FORMATS[dtype]
    magnitude = torch.maximum(right.abs(), wrong.abs())
    floor = (2 * fmt.u * magnitude + fmt.tiny) / SIGMAS
    both = counted & torch.isfinite(right) & torch.isfinite(wrong)
    ratio = (right - wrong).abs() / (size + floor)
    return float(ratio[both].max()) if bool(both.any()) else 0.0


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return clone_strided(value)
    return [_copied(item) for item in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType] # operands are untyped
