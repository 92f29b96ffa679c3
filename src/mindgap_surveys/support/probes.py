"""Makes probes from a catalogue: graphs of one call each, all of which the reference runs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mindgap.graph import Graph, MindgapError, TensorStore, decode, encode
from mindgap.platforms.name import CPU_EAGER, PlatformName
from mindgap.results.catalogue import Catalogue, Entry
from mindgap.results.support_key import SCALAR, Key, key_of
from mindgap.run.outcome import Job, Outcome
from mindgap_surveys.support.call_forms import DTYPES, LAYOUTS, in_place, recast, relaid
from mindgap_surveys.support.single_calls import calls, result_specs
from mindgap_zoo.operator_samples.sample_call import evenly_spaced

Execute = Callable[[Job], Outcome]
#: OnProgress (done, total, what): a long piece of work.
OnProgress = Callable[[int, int, str], None]

#: Samples of one operator, dtype and layout: so many that one odd sample does not decide.
MOST: Final = 3
#: Calls of one key that are kept to choose from, and of these from one graph.
_CANDIDATES: Final = 12
_PER_GRAPH: Final = 2
#: Samples of a form that is made from another: its dtype, layout or place alone is new.
_FORMS: Final = 2
#: Catalogue entries whose every call is a sample, and how large a graph may be that is run for an operator they lack.
_SAMPLES: Final = ("ops", "modules", "onnx")
_MOST_NODES: Final = 500
_MOST_PARAMETERS: Final = 3_000_000
_DEADLINE_S: Final = 60.0
#: Dtypes of the forms that are tried of every overload, besides its plainest: a float of half the width, and integers.
_COMMON: Final = ("float16", "int64")


@dataclass(frozen=True, slots=True)
class CallProbe:
    """One call to try. `data`: the bytes of its graph."""

    op: str
    dtype: str
    layout: str
    data: bytes

    @property
    def key(self) -> Key:
        return Key(self.op, self.dtype, self.layout)

    @property
    def graph(self) -> Graph:
        """Decodes the graph, anew each time."""
        return decode(self.data)


def probes(
    catalogue: Catalogue,
    execute: Execute,
    reference: PlatformName = CPU_EAGER,
    on_progress: OnProgress = lambda done, total, what: None,
    until: float = math.inf,
    on_left: Callable[[int], None] = lambda left: None,
) -> Iterator[CallProbe]:
    """The calls of a catalogue's operator samples, and theirs in other dtypes, layouts and in place.

    `MOST` for each operator, dtype and layout. Only what `reference` runs: others do not get the rest.
    Operators that no sample has are taken from the smallest graphs of the catalogue that hold them. `until`: of
    `time.monotonic`, when the rest is left out; `on_left` gets the number of graphs and operators of the rest.
    """
    probes_found = _collected(catalogue, on_progress, until - (until - time.monotonic()) / 2, on_left)
    by_op: dict[str, dict[Key, list[Graph]]] = {}
    for key, graphs in probes_found.items():
        by_op.setdefault(key.op, {})[key] = [graphs[place] for place in evenly_spaced(graphs, MOST)]
    chooser = _Chooser(execute, reference, TensorStore(catalogue.tensors))
    for done, op in enumerate(sorted(by_op)):
        if time.monotonic() > until:
            on_left(len(by_op) - done)
            break
        on_progress(done, len(by_op), op)
        chooser.choose(by_op[op])
    on_progress(len(by_op), len(by_op), "")
    for key in sorted(chooser.chosen):
        # What has no element compares nothing, and runs last.
        for graph in sorted(chooser.chosen[key], key=_empty):
            yield CallProbe(*key, encode(graph, labels=False))


def _collected(
    catalogue: Catalogue, on_progress: OnProgress, until: float, on_left: Callable[[int], None]
) -> dict[Key, list[Graph]]:
    """Collects candidates by key, in the order of the catalogue."""
    entries = [entry for entry in catalogue.entries("status = 'captured'") if entry.holder]
    samples = [entry for entry in entries if entry.scheme in _SAMPLES]
    others = [e for e in entries if e.scheme not in _SAMPLES and e.nodes <= _MOST_NODES]
    others = sorted((e for e in others if e.parameters <= _MOST_PARAMETERS), key=lambda e: (e.nodes, e.source, e.of))
    collector = _Collector(catalogue)
    for done, entry in enumerate(samples):
        if time.monotonic() > until:
            on_left(len(samples) - done)
            return collector.found
        on_progress(done, len(samples), entry.source)
        collector.take(entry)
    for entry in others:
        if not collector.operators.issuperset(entry.operators):
            collector.take(entry)
    return collector.found


class _Collector:
    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._tensors = TensorStore(catalogue.tensors)
        self._forms: dict[Key, set[str]] = {}
        self.found: dict[Key, list[Graph]] = {}
        self.operators: set[str] = set()

    def take(self, entry: Entry) -> None:
        """Collects the calls of one entry's graph."""
        self.operators.update(entry.operators)
        taken: dict[Key, int] = {}
        for cut in calls(self._catalogue.graph(entry), self._tensors):
            key = key_of(cut, cut.nodes[0])
            forms = self._forms.setdefault(key, set())
            form = form_of(cut)
            if form in forms or len(forms) >= _CANDIDATES or taken.get(key, 0) >= _PER_GRAPH:
                continue
            forms.add(form)
            taken[key] = taken.get(key, 0) + 1
            self.found.setdefault(key, []).append(cut)


class _Chooser:
    """Tries candidates on the reference and keeps those that run, with the specs of their results."""

    def __init__(self, execute: Execute, reference: PlatformName, tensors: TensorStore) -> None:
        self._execute, self._reference, self._tensors = execute, reference, tensors
        self.chosen: dict[Key, list[Graph]] = {}

    def choose(self, met: dict[Key, list[Graph]]) -> None:
        """Chooses the probes of one operator: calls from the catalogue, then other forms of them."""
        for key in sorted(met):
            self._keep(met[key], MOST)
        bases = [self.chosen[key] for key in sorted(met, key=_basic) if key in self.chosen]
        if not bases:
            return
        base = bases[0]
        for dtype in DTYPES:
            self._keep(self._cast(base, dtype), _FORMS)
        for layout in LAYOUTS:
            self._keep((laid for one in base if (laid := relaid(one, layout, self._tensors)) is not None), _FORMS)
        self._keep((written for one in base for written in in_place(one)), _FORMS)

    def _cast(self, base: Sequence[Graph], dtype: str) -> Iterator[Graph]:
        for one in base:
            try:
                cast = recast(one, dtype, self._tensors)
            except MindgapError:
                continue
            if cast is not None:
                yield cast

    def _keep(self, candidates: Iterable[Graph], most: int) -> None:
        for graph in candidates:
            key = key_of(graph, graph.nodes[0])
            if len(self.chosen.get(key, ())) >= most:
                continue
            settled = self._settled(graph)
            if settled is not None and key_of(settled, settled.nodes[0]) == key:
                self.chosen.setdefault(key, []).append(settled)

    def _settled(self, graph: Graph) -> Graph | None:
        outcome = self._execute(Job(self._reference, graph, repeat=1, deadline_s=_DEADLINE_S))
        if not outcome.ran:
            return None
        node = graph.nodes[0]
        if sum(spec is not None for spec in node.outputs) != len(outcome.outputs):
            return graph
        specs = result_specs(node, [(output.dtype, output.shape) for output in outcome.outputs])
        return replace(graph, nodes=(replace(node, outputs=specs),))


def common_forms(keys: Iterable[Key]) -> frozenset[Key]:
    """Returns the forms that say most of an overload for their number: its plainest, and contiguous operands of two
    other dtypes."""
    by_op: dict[str, list[Key]] = {}
    for key in keys:
        by_op.setdefault(key.op, []).append(key)
    plain = {min(forms, key=_basic) for forms in by_op.values()}
    return frozenset(
        key
        for forms in by_op.values()
        for key in forms
        if key in plain or (key.dtype in _COMMON and key.layout == "contiguous")
    )


def _basic(key: Key) -> tuple[bool, bool, bool, Key]:
    """Returns the sort key that puts contiguous float32 first; other forms are made from that key."""
    return (key.dtype != "float32", key.layout == SCALAR, key.layout != "contiguous", key)


def _empty(graph: Graph) -> bool:
    """Returns whether no output of a graph has an element."""
    return not any(spec.numel for number in graph.outputs if (spec := graph.values[number]) is not None)


def form_of(graph: Graph) -> str:
    """Returns a key that is equal for calls that differ only in the values of their tensors."""
    node = graph.nodes[0]
    return repr(([(one.spec.dtype, one.spec.shape, one.spec.stride) for one in graph.inputs], node.args, node.kwargs))
