"""Compares two platforms value by value along the data flow of a graph: `mindgap trace`.

The mean absolute distance of each value follows the paper "Mind the Gap". The rate of change, the idea of CRADLE (Pham
et al., ICSE 2019), is (distance of the result - largest distance of the operands) / (the latter + 1e-7).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from mindgap.aten.functional import functionalize
from mindgap.aten.state import TORCH_STATE
from mindgap.graph import Graph, MindgapError
from mindgap.graph.compare.digest import digest_array
from mindgap.graph.compare.metrics import Metrics, measure
from mindgap.graph_capture import CaptureError, with_explicit_gradients
from mindgap.judge.trace.data_flow import before_nodes, hidden_before
from mindgap.judge.trace.intermediate_values import by_size, shown
from mindgap.judge.trace.probing import OutputProbes, ProbeLimits
from mindgap.judge.trace.roles import Role, relative_difference, role_of
from mindgap.judge.trace.side_values import (
    GROUP_BYTES,
    ProbeEffect,
    SideValues,
    outcome_of,
    output_digests,
    side_of_eager,
    with_views_digested,
)
from mindgap.judge.trace.subgraphs import Array, Execute
from mindgap.judge.trace.value_dump import ValueDump
from mindgap.platforms.name import PlatformName
from mindgap.run.outcome import Job, Outcome

#: `inside`: the value is inside a fusion, or was not looked at. It is never counted as equal.
State = Literal["equal", "differs", "inside"]
#: Keeps the rate of change finite where the operands agree.
EPSILON: Final = 1e-7


@dataclass(frozen=True)
class TracedValue:
    """One value on both sides.

    `node`: of the captured graph. `view_of`: the value of which this one is a view, and whose digest decides it.
    `digests`: of the platform and the reference, empty where there is none. `mad`: mean absolute distance over elements
    that are finite on both sides. `rate`: its rate of change. The distances are None where the value is not seen, and
    where the sides differ in shape or dtype. `role`: of the node, None where no difference reaches it.
    `is_output`: the graph returns it.
    """

    number: int
    node: int
    slot: int
    op: str
    label: str
    spec: str
    state: State
    view_of: int | None = None
    digests: tuple[str, str] = ("", "")
    mad: float | None = None
    rate: float | None = None
    max_abs: float | int | None = None
    max_ulp: int | None = None
    n: int = 0
    n_differing: int | None = None
    note: str = ""
    role: Role | None = None
    is_output: bool = False


@dataclass(frozen=True)
class TracedOutput:
    """One output of the graph without probes. `digests`: of the platform and the reference."""

    label: str
    spec: str
    equal: bool
    digests: tuple[str, str]


@dataclass(frozen=True)
class ProbeReport:
    """Whether looking inside a platform changes what it computes. `changed`: the values that do so alone, by number."""

    platform: PlatformName
    effect: ProbeEffect
    changed: tuple[int, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ValueTrace:
    """All values of a graph on two platforms, in the order of the data flow.

    `first`: the position in `values` of the first that differs. `culprit`: the nodes of the captured graph that the
    difference comes from: one, or the operators of a fusion; empty where nothing differs.
    """

    model: str
    platform: PlatformName
    reference: PlatformName
    values: tuple[TracedValue, ...]
    outputs: tuple[TracedOutput, ...]
    probes: tuple[ProbeReport, ProbeReport]
    first: int | None = None
    culprit: tuple[int, ...] = ()
    ops: tuple[str, ...] = ()

    @property
    def diverged(self) -> bool:
        """Whether any value or output differs."""
        return self.first is not None or not all(output.equal for output in self.outputs)


def trace_values(
    graph: Graph,
    platform: PlatformName,
    reference: PlatformName,
    execute: Execute,
    limits: ProbeLimits,
    model: str = "graph",
    dump: ValueDump | None = None,
) -> ValueTrace:
    """Compares every value of the graph on two platforms. `dump`: also writes values, as far as the sides show them.

    Raises `MindgapError` where a platform does not run the graph, and where there is nothing to compare.
    """
    if graph.grad:
        try:
            with TORCH_STATE:
                graph = with_explicit_gradients(graph)
        except CaptureError as error:
            raise MindgapError(f"the backward pass cannot be written out node by node: {error.reason}") from error
    if not graph.outputs:
        raise MindgapError("nothing was compared: the graph has no output")
    own = [
        outcome_of(Job(name, graph, want="value_digests", deadline_s=limits.deadline_s), execute)
        for name in (platform, reference)
    ]
    inner, origin = graph, tuple(range(len(graph.nodes)))
    if any(outcome.value_digests is None for outcome in own):
        functional = functionalize(graph)
        inner, origin = functional.graph, functional.origin
    written = [] if dump is None else dump.check(graph, inner, origin)
    ours, theirs = _sides(inner, inner is graph, own, execute, limits)
    values = _compared(graph, inner, origin, ours, theirs)
    if dump is not None:
        dump.write(inner, written, ours, theirs)
    return _with_culprit(
        ValueTrace(model, platform, reference, values, _outputs(graph, own), (_probe(ours), _probe(theirs))),
        inner,
    )


def _sides(
    graph: Graph, as_captured: bool, own: list[Outcome], execute: Execute, limits: ProbeLimits
) -> tuple[SideValues, SideValues]:
    """Both sides' values. A side that shows outputs only is searched around the first difference from the other."""
    sides: list[SideValues | OutputProbes] = []
    for outcome in own:
        if outcome.value_digests is None:
            probes = OutputProbes(graph, outcome, execute, limits)
            probes.show_all()
            sides.append(probes)
        else:
            inner = outcome
            if not as_captured:
                job = Job(outcome.platform, graph, want="value_digests", deadline_s=limits.deadline_s)
                inner = outcome_of(job, execute)
            sides.append(side_of_eager(graph, inner, outcome, execute, limits.deadline_s))
    for one, other in (sides, sides[::-1]):
        if isinstance(one, OutputProbes):
            seen = other.side() if isinstance(other, OutputProbes) else other
            one.narrow(with_views_digested(seen, graph, seen.digests))
    ours, theirs = (side.side() if isinstance(side, OutputProbes) else side for side in sides)
    return ours, theirs


def _compared(
    captured: Graph, graph: Graph, origin: tuple[int, ...], ours: SideValues, theirs: SideValues
) -> tuple[TracedValue, ...]:
    """Every value with its state, distances and role. Whole values are fetched where digests do not decide."""
    rows: dict[int, TracedValue] = {}
    sizes: dict[int, float] = {}
    open_ones: list[int] = []
    for number in shown(graph):
        row = _undecided(captured, graph, origin, number)
        a, b = ours.digests.get(number), theirs.digests.get(number)
        if a is None or b is None:
            changes = number in ours.changed or number in theirs.changed
            note = "looking at it changes the outputs" if changes else "not looked at"
            rows[number] = replace(row, digests=(_text(a), _text(b)), note=note)
            continue
        same_base = isinstance(a, int) and a == b and (a < len(graph.inputs) or rows[a].state == "equal")
        if same_base or (isinstance(a, str) and a == b):
            view = a if isinstance(a, int) else None
            row = replace(row, state="equal", view_of=view, digests=(_text(a), _text(b)))
            rows[number], sizes[number] = replace(row, mad=0.0, max_abs=0, max_ulp=0, n_differing=0), 0.0
            continue
        rows[number] = replace(row, view_of=a if isinstance(a, int) else b if isinstance(b, int) else None)
        # A view whose base differs may still be equal: only its elements decide.
        rows[number] = replace(rows[number], state="differs")
        open_ones.append(number)
    for group in by_size(graph, open_ones, GROUP_BYTES):
        mine, other = ours.fetch(group), theirs.fetch(group)
        for number in group:
            rows[number], sizes[number] = _measured(rows[number], mine[number], other[number])
    return _along_the_flow(graph, rows, sizes)


def _undecided(captured: Graph, graph: Graph, origin: tuple[int, ...], number: int) -> TracedValue:
    inner = graph.producer[number]
    node, spec = origin[inner], graph.values[number]
    label = captured.labels.nodes[node] if captured.labels.nodes else ""
    slot = number - graph.first_value[inner]
    size = 0 if spec is None else spec.numel
    return TracedValue(
        number, node, slot, graph.nodes[inner].op, label, str(spec), "inside", n=size, is_output=number in graph.outputs
    )


def _text(digest: str | int | None) -> str:
    return digest if isinstance(digest, str) else ""


def _measured(row: TracedValue, ours: Array, theirs: Array) -> tuple[TracedValue, float]:
    """The row with its distances, and the relative difference."""
    digests = digest_array(ours), digest_array(theirs)
    state: State = "equal" if digests[0] == digests[1] else "differs"
    measured = measure(theirs, ours)
    row = replace(row, state=state, digests=digests)
    if not isinstance(measured, Metrics):
        return replace(row, note=f"{measured.other} on the platform, {measured.reference} on the reference"), float(
            "inf"
        )
    classes = {"NaN": measured.nan_mismatch, "infinity": measured.inf_mismatch}
    note = "; ".join(f"{name} on one side in {count} of {measured.n}" for name, count in classes.items() if count)
    row = replace(
        row,
        mad=measured.mad,
        max_abs=measured.max_abs,
        max_ulp=measured.max_ulp,
        n_differing=measured.n_differing,
        note=note,
    )
    return row, 0.0 if state == "equal" else relative_difference(ours, theirs)


def _along_the_flow(
    graph: Graph, rows: Mapping[int, TracedValue], sizes: Mapping[int, float]
) -> tuple[TracedValue, ...]:
    """The rows with the rate of change of the distance, and each node's role."""
    distances = {n: row.mad for n, row in rows.items() if row.mad is not None}
    mad_before, size_before = before_nodes(graph, distances), before_nodes(graph, sizes)
    values: list[TracedValue] = []
    for number, row in rows.items():
        node = graph.producer[number]
        made = range(graph.first_value[node], graph.first_value[node] + len(graph.nodes[node].outputs))
        seen = [sizes[n] for n in made if n in sizes]
        role = role_of(size_before[node], max(seen)) if seen and (size_before[node] or max(seen)) else None
        rate = None if row.mad is None else (row.mad - mad_before[node]) / (mad_before[node] + EPSILON)
        values.append(replace(row, rate=rate, role=role))
    return tuple(values)


def _outputs(graph: Graph, own: list[Outcome]) -> tuple[TracedOutput, ...]:
    labels = graph.labels.outputs or tuple(f"output {i}" for i in range(len(graph.outputs)))
    pairs = zip(*(output_digests(outcome) for outcome in own), strict=True)
    return tuple(
        TracedOutput(label, str(graph.values[number]), a == b, (a, b))
        for label, number, (a, b) in zip(labels, graph.outputs, pairs, strict=True)
    )


def _probe(side: SideValues) -> ProbeReport:
    return ProbeReport(side.platform, side.probe_effect, side.changed, side.notes)


def _with_culprit(trace: ValueTrace, graph: Graph) -> ValueTrace:
    """The trace with its first difference, and the operators that lead to it from values that agree."""
    first = next((i for i, value in enumerate(trace.values) if value.state == "differs"), None)
    if first is None:
        return trace
    seen = {value.number for value in trace.values if value.state != "inside"}
    by_number = {value.number: value for value in trace.values}
    number = trace.values[first].number
    numbers = sorted([*hidden_before(graph, number, seen), number])
    nodes = dict.fromkeys(by_number[n].node for n in numbers if n in by_number)
    ops = dict.fromkeys(by_number[n].op for n in numbers if n in by_number)
    return replace(trace, first=first, culprit=tuple(nodes), ops=tuple(ops))


#: How many values at most are chosen for the rate of change of their distance: of growth, and of loss.
GROWING: Final = 8
LOSING: Final = 4


def turning_points(trace: ValueTrace) -> list[TracedValue]:
    """The first value that differs, the values it comes from, and those where the distance begins, jumps or ends.

    In the order of the data flow. The values that the graph's outputs are made of are among them.
    """
    chosen = {value.number for value in trace.values if value.node in trace.culprit and value.state != "equal"}
    if trace.first is not None:
        chosen.add(trace.values[trace.first].number)
    turning = [v for v in trace.values if v.role not in (None, "propagates") and v.view_of is None]
    growing = sorted((v for v in turning if v.role != "masks"), key=lambda v: -(v.rate or 0.0))
    losing = sorted((v for v in turning if v.role == "masks"), key=lambda v: v.rate or 0.0)
    chosen |= {v.number for v in (*growing[:GROWING], *losing[:LOSING])}
    chosen |= {v.number for v in trace.values if v.is_output}
    return [value for value in trace.values if value.number in chosen]
