"""What the judge says of a platform's outcome: verdict, blame, culprit, figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mindgap.compare.verdict import Blame, Verdict
from mindgap.trace.roles import Role


@dataclass(frozen=True, slots=True)
class Culprit:
    """The operator at fault: node of the captured graph, overload (a fused set joined by `+`), where it came from."""

    node: int
    op: str
    label: str = ""


@dataclass(frozen=True)
class Judgement:
    """Verdict, who is wrong, where, by how much. `nodes`: (node of the captured graph, operator, role in the
    difference) for every node that it reaches; `detail`: one sentence for a person."""

    verdict: Verdict
    blame: Blame | None = None
    culprit: Culprit | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict[str, Any])
    detail: str = ""
    nodes: tuple[tuple[int, str, Role], ...] = ()
