"""One of the faults of a row, which stays when the others are mended."""

from __future__ import annotations

from dataclasses import dataclass

from mindgap.graph.compare.culprit import Culprit
from mindgap.graph.compare.example import Example
from mindgap.graph.compare.verdict import Blame, Verdict


@dataclass(frozen=True, slots=True)
class Fault:
    """An operator that is wrong whatever the other operators do: on operands that are right.

    `culprit`: None where no operator is named. `nodes`: of the captured graph, in order, all calls of the same operator
    that are wrong in the same way; of a set of operators, its nodes. `verdict`, `blame`, `detail`, `example`, `script`,
    `known`: as of a row in which it is the only fault. `advice`: what its reader can do, where that is known.
    """

    culprit: Culprit | None
    verdict: Verdict
    blame: Blame | None = None
    nodes: tuple[int, ...] = ()
    detail: str = ""
    example: Example | None = None
    script: str = ""
    known: bool = False
    advice: str = ""
