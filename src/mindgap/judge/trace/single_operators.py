"""Runs each operator alone on common operands, to measure its own error apart from inherited error.

The operands are S's, the most accurate that the declared dtypes can hold, so that platform and reference are
measured by the same stick and neither needs to show its intermediate values.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import torch

from mindgap.aten.storage import storage_reads
from mindgap.aten.tensors import TORCH_DTYPES, to_numpy, to_torch
from mindgap.graph import extract
from mindgap.graph.sizes import input_bytes, output_bytes
from mindgap.judge.oracle import Examined, InternalValues, LocalExpectation, Oracle, local_expectation
from mindgap.judge.oracle.evaluation.formats import is_real
from mindgap.judge.oracle.examination import BULK_RATIO
from mindgap.judge.trace.precision_loss import precision_loss
from mindgap.judge.trace.subgraphs import (
    Array,
    Execute,
    Subgraph,
    SubgraphResult,
    batches,
    cut,
    leading_to,
    readers_of,
    run_subgraphs,
    written_as_it_ran,
)
from mindgap.judge.trace.wrong_rules import wrong_rule
from mindgap.platforms.name import PlatformName

Kind = Literal["discrepant", "exceptional", "reduced_precision", "structural"]
#: Operands and results of one job: larger graphs are run in several, so that memory stays flat.
MAX_BATCH_BYTES: Final = 64 << 20
MAX_KEPT: Final = 32
#: Calls whose operands and results together take more are sampled where a sample may decide.
SAMPLED_FROM_BYTES: Final = 512 << 20
#: A result wrong in bulk by less than this share of its size was computed in fewer bits; by more, it is wrong.
#: It is sixteen roundings to bfloat16. `selu` without its scale of 1.05 is wrong.
REDUCED_UP_TO: Final = 2.0**-5


@dataclass(frozen=True)
class Confirmed:
    """A subgraph that a platform gets wrong on right operands.

    `worst`: largest error in hard σ. `arrays`: what it gave, by value number of the whole graph; kept for the first
    `MAX_KEPT` of a platform. `internal`: only results are wrong that no public function returns. `retyped`: the result
    to be told is right, in another dtype than the graph declares. `whole`: only the whole graph is known to be wrong,
    and `nodes` is where its values first differ. `loss`: how precision was lost, a phrase of the detail, where it is
    known.
    """

    nodes: tuple[int, ...]
    kind: Kind
    worst: float
    arrays: dict[int, Array]
    count: int = 0
    internal: bool = False
    retyped: bool = False
    whole: bool = False
    loss: str = ""


class SingleOperators:
    """Runs every operator of a functional graph alone, on any platform, and keeps the results.

    `original`: for each functional node, the operator that ran in the graph as captured. `internal`: its internal
    values, of which the hidden ones are not looked at.
    """

    def __init__(
        self, oracle: Oracle, original: Sequence[str], execute: Execute, deadline_s: float,
        internal: InternalValues | None = None,
    ) -> None:  # fmt: skip
        self._oracle, self._execute, self._deadline_s = oracle, execute, deadline_s
        self._internal = internal or InternalValues()
        self._readers = readers_of(oracle.graph)
        self._reads = storage_reads(oracle.graph)
        self._singles = [written_as_it_ran(self.single(i), original[i]) for i in range(len(oracle.graph.nodes))]
        #: The nodes that `confirmed` runs.
        self.nodes: Collection[int] = range(len(oracle.graph.nodes))
        #: Nodes of which another class of results is no finding: no platform that is right has the infinities that they
        #: read (`range_loss`).
        self.moot: Collection[int] = ()
        self._found: dict[PlatformName, list[Confirmed]] = {}
        self._alone: dict[tuple[str, int], bool] = {}
        self._scalars: dict[PlatformName, dict[int, tuple[str, ...]]] = {}

    def cut(self, nodes: Sequence[int], show_all: bool = False) -> Subgraph:
        """The cut of these nodes. `show_all`: every value that they make is an output.

        Where one of them reads storage, the views that lead to its operand are part of the cut.
        """
        views = {v for n in nodes if n in self._reads for v in self._reads[n].views}
        return cut(self._oracle.graph, sorted(views | set(nodes)), self._readers, self._internal.hidden, show_all)

    def single(self, node: int) -> Subgraph:
        """The cut of one node, which shows nothing but that node's results."""
        graph = self._oracle.graph
        alone = cut(graph, [node], self._readers, self._internal.hidden)
        if not self._reads.get(node):
            return alone
        small, borders = extract(graph, [*self._reads[node].views, node], alone.outputs)
        return Subgraph((node,), small, tuple(borders), alone.outputs)

    def as_it_ran(self, node: int) -> Subgraph:
        """The cut of one node, with the operator that ran in the graph as captured."""
        return self._singles[node]

    def leading_to(self, node: int, among: Sequence[int]) -> tuple[int, ...]:
        """The nodes of `among` that a node depends on, and itself, in execution order."""
        graph = self._oracle.graph
        return tuple(n for n in leading_to(graph, [graph.first_value[node]]) if n in among)

    def value(self, number: int) -> Array:
        """A value in S, as an array of its declared dtype."""
        return to_numpy(self._oracle.step.values[number])

    def run(self, cuts: Sequence[Subgraph], platform: PlatformName) -> Iterator[SubgraphResult]:
        """What the platform gives for each cut on S's values, a batch at a time.

        Nothing for a cut whose operands have other shapes in S than in the graph, as an operator may give on the
        processor at hand: no job can be made of it.
        """
        for batch in batches([c for c in cuts if self._fits(c)], MAX_BATCH_BYTES):
            values = {b: self.value(b) for b in sorted({b for c in batch for b in c.borders})}
            yield from run_subgraphs(batch, values, platform, self._execute, self._deadline_s)

    def _fits(self, one: Subgraph) -> bool:
        values = self._oracle.step.values
        return all(values[b].shape == i.spec.shape for b, i in zip(one.borders, one.graph.inputs, strict=True))

    def confirmed(self, platform: PlatformName) -> list[Confirmed]:
        """The operators that this platform gets wrong by themselves, in execution order."""
        if platform not in self._found:
            faults: list[Confirmed] = []
            # Stretch by stretch: a batch that spans two would have S computed again for each.
            for nodes in self._oracle.parts:
                wanted = [self._singles[node] for node in nodes if node in self.nodes]
                singles = [c for c in wanted if self._holds_something(c)]
                for result in self.run(singles, platform):
                    one = self._judge(result, platform)
                    if one is not None:
                        faults.append(one if len(faults) < MAX_KEPT else replace(one, arrays={}))
            self._found[platform] = faults
        moot = self.moot
        return [one for one in self._found[platform] if one.kind != "exceptional" or one.nodes[0] not in moot]

    def sampled(self) -> SingleOperators | None:
        """The same for the first and the last node of each distinct call: of one operator, with equal attributes,
        shapes, strides and dtypes. None for a graph whose calls take little, which are all run."""
        size = sum(input_bytes(c.graph) + output_bytes(c.graph) for c in self._singles)
        if size <= SAMPLED_FROM_BYTES:
            return None
        calls: dict[str, list[int]] = {}
        for node, one in enumerate(self._singles):
            specs = [(given.spec, given.role) for given in one.graph.inputs]
            calls.setdefault(repr((one.graph.nodes, specs, one.graph.outputs)), []).append(node)
        few = copy.copy(self)
        few.nodes = frozenset(node for nodes in calls.values() for node in (nodes[0], nodes[-1]))
        few._found, few._alone, few._scalars = {}, {}, {}
        return few

    def _holds_something(self, single: Subgraph) -> bool:
        """An element, or at least a shape that the graph itself shows: how a platform presents an empty value that
        only the platform's kernels read is no difference."""
        graph = self._oracle.graph
        return any(n in graph.outputs or self._oracle.step.values[n].numel() for n in single.outputs)

    def holds_alone(self, confirmed: Confirmed, platform: PlatformName) -> bool:
        """An operator is wrong in a separate job as well.

        Operators are run side by side in one graph, and a runtime may hand out wrong results of a graph of many outputs
        of which each is right by itself.
        """
        (node,) = confirmed.nodes
        if (platform, node) not in self._alone:
            results = self.run([self._singles[node]], platform)
            self._alone[platform, node] = any(self._judge(result, platform) is not None for result in results)
        return self._alone[platform, node]

    def scalars_rounded(self, platform: PlatformName) -> dict[int, tuple[str, ...]]:
        """The operators, of those that ran, whose results only other roundings of their scalar operands explain: the
        dtype of each scalar, by node."""
        return self._scalars.get(platform, {})

    def _judge(self, result: SubgraphResult, platform: PlatformName) -> Confirmed | None:
        node = result.cut.nodes[0]
        expected = local_expectation(self._oracle, node)
        fault = judge_single(result, expected, self._internal.values)
        if fault is None and expected.scalars and result.arrays is not None:
            rounded = [
                expected.examine(number - expected.first, array).scalars_rounded
                for number, array in zip(result.cut.outputs, result.arrays, strict=True)
            ]
            if any(rounded):
                self._scalars.setdefault(platform, {})[node] = next(filter(None, rounded))
        if fault is None or fault.kind not in ("discrepant", "reduced_precision"):
            return fault
        if rule := wrong_rule(self._oracle, node, fault.arrays):
            return replace(fault, kind="reduced_precision" if rule.fewer_bits else "discrepant", loss=rule.phrase)
        loss = precision_loss(self._oracle, node, fault.arrays)
        return replace(fault, kind="reduced_precision", loss=loss) if loss else fault

    def own(self, platform: PlatformName, other: PlatformName) -> list[Confirmed]:
        """What this platform gets wrong and the other does not get wrong in the same way."""
        alike = {c.nodes for c in self.shared(platform, other)}
        return [c for c in self.confirmed(platform) if c.nodes not in alike]

    def shared(self, platform: PlatformName, other: PlatformName) -> list[Confirmed]:
        """Operators that both get wrong alike: no difference between the two, whoever is right.

        Alike: of the same kind, and within the hard bound of each other.
        """
        theirs = {c.nodes: c for c in self.confirmed(other)}
        return [c for c in self.confirmed(platform) if c.nodes in theirs and self._alike(c, theirs[c.nodes])]

    def _alike(self, one: Confirmed, other: Confirmed) -> bool:
        if one.kind != other.kind or one.arrays.keys() != other.arrays.keys():
            return one.kind == other.kind and not (one.arrays and other.arrays)
        expected = local_expectation(self._oracle, one.nodes[0])
        return all(_agree(expected, n - expected.first, array, other.arrays[n]) for n, array in one.arrays.items())


def _agree(expected: LocalExpectation, slot: int, one: Array, other: Array) -> bool:
    """Both have one dtype and shape, and where the shadow has it too, one is within the bounds of the other."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    centre = expected.around(slot, other)
    # `structural` is what both are then: neither has the dtype that the graph declares.
    return centre is expected or centre.examine(slot, one).kind in ("calm", "structural")


def judge_single(
    result: SubgraphResult, expected: LocalExpectation, internal: Collection[int] = ()
) -> Confirmed | None:
    """Judges one operator's own results against its bounds; None where they are calm.

    None also where the platform cannot run the operator by itself: the whole graph ran there, so that is no evidence.
    An error of a public result is reported before one of an `internal` value, and wrong values before another dtype.
    """
    if result.arrays is None:
        return None
    worst: Confirmed | None = None
    arrays = dict(zip(result.cut.outputs, result.arrays, strict=True))
    for number, array in arrays.items():
        verdict = expected.examine(number - expected.first, array)
        kind = kind_of_error(verdict)
        if kind is None:
            continue
        retyped = kind == "structural" and _right_values(expected, number - expected.first, array)
        one = Confirmed(result.cut.nodes, kind, verdict.worst, arrays, verdict.count, number in internal, retyped)
        if worst is None or _rank(one) > _rank(worst):
            worst = one
    return worst


def _rank(one: Confirmed) -> tuple[bool, bool, float]:
    return not one.internal, not one.retyped, one.worst


def _right_values(expected: LocalExpectation, slot: int, array: Array) -> bool:
    """Whether a result is known to be right once it is converted to the dtype that the graph declares.

    To integers and booleans it must convert without loss: 2.5 is no 2, and 255 no True.
    """
    declared, given = expected.hard[slot], to_torch(array)
    if declared is None:
        return False
    dtype = TORCH_DTYPES[declared.dtype]
    if given.dtype == dtype or given.is_complex() != dtype.is_complex:
        return False
    converted = given.to(dtype)
    if not is_real(declared.dtype) and not torch.equal(converted.to(given.dtype), given):
        return False
    verdict = expected.examine(slot, to_numpy(converted))
    return not verdict.silent and kind_of_error(verdict) is None


def kind_of_error(verdict: Examined) -> Kind | None:
    """The finding that one examined result amounts to, None for a calm one."""
    if verdict.kind == "structural":
        return "structural"
    if verdict.kind == "exceptional":
        return "exceptional"
    bulk = verdict.median is not None and verdict.median > BULK_RATIO
    if verdict.single or (bulk and verdict.relative < REDUCED_UP_TO):
        return "reduced_precision"
    return "discrepant" if verdict.kind == "discrepant" or bulk else None
