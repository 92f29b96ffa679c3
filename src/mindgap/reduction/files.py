"""Writes a reduced finding: script, report, graphs, and a summary as JSON."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mindgap.graph import MindgapError, digest, save
from mindgap.reduction.finding import ReducedFinding
from mindgap.reduction.reproducer import report, title_of


@dataclass(frozen=True, slots=True)
class Summary:
    """What a table needs of a reduced finding.

    `nodes`: of the graph before. `operators`, `dtypes`: of the reduced graph and its inputs. `signature`: of a failure.
    `verified`: the script showed the finding twice without mindgap. `short`: it is the short form. `complete`: no limit
    ended the reduction. `seconds`: wall-clock time of the reduction. `script`: name of the file.
    """

    title: str
    platform: str
    verdict: str
    blame: str
    operators: tuple[str, ...]
    dtypes: tuple[str, ...]
    signature: str
    nodes: int
    checks: int
    seconds: float
    complete: bool
    short: bool
    verified: bool
    script: str

    @property
    def cause(self) -> tuple[object, ...]:
        """Two findings with equal causes are counted once."""
        return self.platform, self.verdict, self.blame, tuple(sorted(set(self.operators))), self.signature


def write_finding(out: Path, found: ReducedFinding, nodes: int, seen: str = "") -> Summary:
    """Writes NAME.py, .md, .graph, .json and, where there is one, NAME.passing.graph into `out`, which is made.

    `nodes`: of the graph before the reduction. `seen`: how often and where the finding was met, for the report. Raises
    `MindgapError` where the directory cannot be written.
    """
    row, reduction, made = found.row, found.reduction, found.reproducer
    graph = reduction.graph
    packets = "-".join(dict.fromkeys(node.op.split(".")[1] for node in graph.nodes[:3]))
    name = re.sub(r"[^\w.-]+", "_", f"{row.model}-{row.platform}-{packets}-{digest(graph)[:6]}")
    summary = Summary(
        title=title_of(graph, row),
        platform=row.platform,
        verdict=row.word,
        blame=row.blame or "",
        operators=tuple(node.op for node in graph.nodes),
        dtypes=tuple(sorted({given.spec.dtype for given in graph.inputs})),
        signature=row.signature if row.verdict == "failed" else "",
        nodes=nodes,
        checks=reduction.checks,
        seconds=round(reduction.seconds, 2),
        complete=reduction.complete,
        short=made.short,
        verified=made.verified,
        script=f"{name}.py",
    )
    try:
        out.mkdir(parents=True, exist_ok=True)
        Path(out, f"{name}.py").write_text(made.text)
        Path(out, f"{name}.md").write_text(report(graph, row, made, seen))
        Path(out, f"{name}.json").write_text(json.dumps(asdict(summary), indent=1) + "\n")
        save(graph, Path(out, f"{name}.graph"))
        if reduction.passing is not None:
            save(reduction.passing, Path(out, f"{name}.passing.graph"))
    except OSError as error:
        raise MindgapError(f"{out}: cannot be written: {error}") from None
    return summary


def read_summary(file: Path) -> Summary:
    """The summary in a file that `write_finding` wrote."""
    data: dict[str, Any] = json.loads(file.read_text())
    data["operators"], data["dtypes"] = tuple(data["operators"]), tuple(data["dtypes"])
    return Summary(**data)


def summary_text(summary: Summary, out: Path) -> str:
    """The summary in three lines of text."""
    verified = "verified twice without mindgap" if summary.verified else "NOT VERIFIED: it does not show the finding"
    ended = "" if summary.complete else ", ended by its limit"
    spent = f"in {summary.checks} checks, {summary.seconds:.1f} s{ended}"
    return (
        f"{summary.title}\n"
        f"  {summary.nodes} -> {len(summary.operators)} operators {spent}\n"
        f"  {out / summary.script}: {verified}"
    )
