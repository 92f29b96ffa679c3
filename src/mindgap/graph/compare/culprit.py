"""The operator that a finding names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: How the culprit begins of a failure that depends on which values the graph returns.
GRAPH_OUTPUTS: Final = "graph outputs"


@dataclass(frozen=True, slots=True)
class Culprit:
    """The operator at fault. A graph of it alone shows the finding; a set of several is the smallest that was found.

    `node`: its index in the captured graph, -1 where none is known; of a fused set, the last one. `op`: its overload; a
    fused set is joined by `+`. `label`: the line of the user's program that it came from.
    """

    node: int
    op: str
    label: str = ""
