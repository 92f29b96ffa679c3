"""Keeps what a page shows of a reduced finding: the script's output, figures, and graphs with roles of nodes."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from mindgap.findings.reduction.finding import ReducedFinding
from mindgap.graph import Graph, MindgapError
from mindgap.graph.compare.row_metrics import RowMetrics
from mindgap.results.drawn_graph import DrawnNode, drawn_nodes, named_role
from mindgap.results.rows import Row


@dataclass(frozen=True, slots=True)
class Evidence:
    """`printed`: by the script, the last time it ran. `detail`, `message`, `metrics`: of the reduced graph's row.

    `reduced`, `before`: the nodes of the graph after and before the reduction.
    """

    printed: str = ""
    detail: str = ""
    message: str = ""
    metrics: RowMetrics = field(default_factory=RowMetrics)
    reduced: tuple[DrawnNode, ...] = ()
    before: tuple[DrawnNode, ...] = ()


def evidence_of(found: ReducedFinding) -> Evidence:
    """The evidence of a reduced finding."""
    row = found.row
    return Evidence(
        printed=found.reproducer.printed,
        detail=row.detail,
        message=row.message,
        metrics=row.metrics,
        reduced=drawn(found.reduction.graph, row),
        before=drawn(found.before, found.row_before),
    )


def drawn(graph: Graph, row: Row) -> tuple[DrawnNode, ...]:
    """The nodes of a graph, with the roles that its row gives them."""
    return drawn_nodes(graph, {node: role for node, _, role in row.nodes} or named_role(row.culprit, str(row.verdict)))


def evidence_file(directory: Path, script: str) -> Path:
    """The file of the evidence next to a script."""
    return (directory / script).with_suffix(".evidence.json")


def evidence_text(evidence: Evidence) -> str:
    """The content of the file."""
    data = asdict(evidence)
    data["metrics"] = {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in data["metrics"].items()
    }
    return json.dumps(data, ensure_ascii=False) + "\n"


def read_evidence(file: Path) -> Evidence:
    """The evidence in a file; empty where there is none, as with scripts of older versions. Raises `MindgapError`."""
    try:
        data: Any = json.loads(file.read_text(encoding="utf-8"))
        return _EVIDENCE.validate_python(data)
    except FileNotFoundError:
        return Evidence()
    except (OSError, ValueError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise MindgapError(f"{file} cannot be read: {first}; reduce the finding again") from None


_EVIDENCE = TypeAdapter(Evidence)
