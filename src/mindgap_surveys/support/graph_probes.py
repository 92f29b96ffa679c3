"""Makes probes of the operator calls that given graphs hold, and of no others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass

from mindgap.graph import Graph, encode
from mindgap.results.support_key import Key, key_of
from mindgap_surveys.support.probes import MOST, CallProbe
from mindgap_surveys.support.single_calls import calls

#: Bytes of a probe's graph. Hundreds of probes are held at a time, and small operands ask as well as large ones.
_MOST_BYTES = 1 << 16


@dataclass(frozen=True)
class CaseProbes:
    """The keys of given graphs, and probes for the unknown ones.

    A key without a probe cannot be surveyed: the operands of its calls are too large, or the calls do not run by
    themselves.
    """

    keys: Set[Key]
    probes: list[CallProbe]


def case_probes(
    graphs: Iterable[Graph], known: Set[Key], on_graph: Callable[[int], None] = lambda done: None
) -> CaseProbes:
    """Makes up to three probes of each key not in `known`, sorted by key. `on_graph`: receives the graphs done.

    A graph that holds a key of which more probes are wanted is run once on the CPU, for the values of its operands.
    """
    keys: set[Key] = set()
    by_key: dict[Key, dict[bytes, CallProbe]] = {}
    for done, graph in enumerate(graphs, 1):
        held = {key_of(graph, node) for node in graph.nodes}
        keys |= held
        wanted = {key for key in held - known if len(by_key.get(key, ())) < MOST}
        for cut in calls(graph) if wanted else ():
            key, data = key_of(cut, cut.nodes[0]), encode(cut, labels=False)
            of_key = by_key.setdefault(key, {})
            if key in wanted and len(of_key) < MOST and len(data) <= _MOST_BYTES:
                of_key[data] = CallProbe(*key, data)
        on_graph(done)
    return CaseProbes(keys, [probe for key in sorted(by_key) for probe in by_key[key].values()])
