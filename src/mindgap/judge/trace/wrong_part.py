"""Finds the smallest part of the captured graph whose values a platform gets wrong.

Single operators and windows are cut from the functional graph, where in-place writes and views have become copies. A
write that a platform loses shows only in a part of the graph as captured.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mindgap.aten.functional import functionalize
from mindgap.graph import Graph, GraphError
from mindgap.judge.trace.fused import confirmed_whole
from mindgap.judge.trace.smallest_part import PartSearch, SmallestPart
from mindgap.judge.trace.subgraphs import Array, Execute
from mindgap.platforms.name import PlatformName
from mindgap.run.outcome import Job

#: How many wrong parts the search may judge while it drops nodes.
_MOST_WRONG: Final = 24
#: Larger graphs are not searched: each part costs an oracle.
MAX_NODES: Final = 512


def wrong_part(
    graph: Graph, inputs: dict[int, Array], platform: PlatformName, execute: Execute, deadline_s: float
) -> SmallestPart:
    """The smallest part of which the platform's results are beyond hard bounds. `graph` has explicit gradients."""
    if len(graph.nodes) > MAX_NODES:
        return SmallestPart((), f"the graph has more than {MAX_NODES} operators")

    def wrong(part: Graph, given: dict[int, Array]) -> bool:
        outcome = execute(Job(platform, part, want="outputs", repeat=1, deadline_s=deadline_s, inputs=given))
        return outcome.arrays is not None and _is_wrong(part, given, outcome.arrays)

    if not wrong(replace(graph, grad=()), inputs):
        return SmallestPart((), "the values of the whole graph are right when it runs on its own")
    return PartSearch(replace(graph, grad=()), inputs, wrong, most=_MOST_WRONG).smallest()


def _is_wrong(part: Graph, given: dict[int, Array], arrays: tuple[Array, ...]) -> bool:
    try:
        functional = functionalize(part).graph
    except GraphError:
        return False
    if len(arrays) != len(functional.outputs):
        return True
    return confirmed_whole(functional, [given[i] for i in range(len(part.inputs))], arrays, {}, 0) is not None
