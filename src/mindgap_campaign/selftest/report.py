"""Holds the results of the selftest."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

Expectation = Literal["fault", "benign", "refusal"]


@dataclass(frozen=True, slots=True)
class CaseRow:
    """One graph with one fault.

    `expected`: `fault` (must be found if it counts), `benign` (below rounding, or no fault: must be calm), `refusal`
    (must be called unsupported). `at_node`, `at_node_typical`: the largest local change over B, hard and typical;
    `at_output`: over σ; infinite where class, shape or dtype change or the graph fails. `faulty_nodes`: the nodes whose
    local change is past 16 typical bounds. `right`: the culprit is one of them.
    """

    graph: str
    fault: str
    op: str
    expected: Expectation
    at_node: float
    at_node_typical: float
    at_output: float
    faulty_nodes: tuple[int, ...]
    verdict: str | None
    status: str
    culprit_node: int | None
    culprit_op: str
    found: bool
    right: bool
    seconds: float = 0.0
    detail: str = ""

    @property
    def counts(self) -> bool:
        """Whether the fault must be found."""
        return self.expected == "fault" and self.at_node > 16 and self.at_output > 16

    @property
    def counts_typically(self) -> bool:
        """Whether the fault passes the typical bound; finding it is not promised."""
        return self.expected == "fault" and self.at_node_typical > 16 and self.at_output > 16

    @property
    def alarm(self) -> bool:
        """Whether it is a false alarm."""
        return self.expected != "fault" and (
            self.found or (self.expected == "refusal" and self.status != "unsupported")
        )


@dataclass(frozen=True, slots=True)
class Trials:
    """The cases tried on one subject. `skipped`: the reason if it could not be made."""

    rows: tuple[CaseRow, ...]
    skipped: str = ""


@dataclass(frozen=True)
class SelftestReport:
    """Every case, and the figures over them. `skipped`: graphs that could not be made here, with the reason."""

    cases: tuple[CaseRow, ...]
    skipped: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0

    @cached_property
    def counting(self) -> tuple[CaseRow, ...]:
        return tuple(case for case in self.cases if case.counts)

    @property
    def faults(self) -> int:
        """How many faults had to be found."""
        return len(self.counting)

    @property
    def recall(self) -> float | None:
        """Share of the faults that had to be found and were; None where there were none."""
        return _share(case.found for case in self.counting)

    @property
    def recall_typical(self) -> float | None:
        """The same among all faults past the typical bound."""
        return _share(case.found for case in self.cases if case.counts_typically)

    @property
    def culprit_accuracy(self) -> float | None:
        """Share of the found faults whose culprit is right."""
        return _share(case.right for case in self.counting if case.found)

    @property
    def false_alarms(self) -> int:
        return sum(case.alarm for case in self.cases)

    @property
    def benign(self) -> int:
        """How many cases had to be calm."""
        return sum(case.expected != "fault" for case in self.cases)

    @property
    def passed(self) -> bool:
        """Whether all counting faults were found, 98 % of culprits are right, without false alarm or empty run."""
        accuracy = self.culprit_accuracy
        return (
            self.recall == 1.0
            and accuracy is not None
            and accuracy >= 0.98
            and not self.false_alarms
            and bool(self.benign)
        )

    def to_json(self) -> str:
        """Formats as one object: figures, then a row per case; strict JSON, infinite ratios as "inf"."""
        figures = {
            key: getattr(self, key)
            for key in ("faults", "recall", "recall_typical", "culprit_accuracy", "false_alarms", "benign", "passed")
        }
        rows = [{**_plain(asdict(case)), "counts": case.counts, "alarm": case.alarm} for case in self.cases]
        data = {**figures, "seconds": round(self.seconds, 1), "cases": rows, "skipped": [list(s) for s in self.skipped]}
        return json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False)

    def to_text(self) -> str:
        """Formats the figures by kind of fault, then every case that went wrong."""
        tried = Counter(case.fault for case in self.counting)
        by_fault = Counter(case.fault for case in self.counting if case.found)
        right = Counter(case.fault for case in self.counting if case.right)
        lines = [f"{'fault':<34}{'counts':>7}{'found':>7}{'culprit':>8}"]
        lines += [f"{kind:<34}{tried[kind]:>7}{by_fault[kind]:>7}{right[kind]:>8}" for kind in sorted(tried)]
        lines += [_complaint(case) for case in self.cases if _wrong(case)]
        lines += [f"skipped {graph}: {reason}" for graph, reason in self.skipped]
        lines.append(
            f"{self.faults} faults: recall {_percent(self.recall)} "
            f"({_percent(self.recall_typical)} by the typical bound), culprit right {_percent(self.culprit_accuracy)}; "
            f"{self.false_alarms} false alarms in {self.benign} benign cases; {self.seconds:.0f} s"
        )
        return "\n".join(lines)


def _wrong(case: CaseRow) -> bool:
    return case.alarm or (case.counts and not (case.found and case.right))


def _complaint(case: CaseRow) -> str:
    what = "false alarm" if case.alarm else "missed" if not case.found else "wrong culprit"
    blamed = f" at node {case.culprit_node} {case.culprit_op}" if case.culprit_op else ""
    outcome = f"{case.verdict or case.status}{blamed}"
    return f"{what}: {case.fault} of {case.op} in {case.graph}: {outcome}; faulty nodes {case.faulty_nodes}"


def _share(flags: Iterable[bool]) -> float | None:
    listed = list(flags)
    return sum(listed) / len(listed) if listed else None


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {key: "inf" if value == math.inf else value for key, value in row.items()}
