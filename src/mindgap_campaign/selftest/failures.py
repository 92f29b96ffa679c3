"""Injects faults that end or stall a process, through real workers."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from pathlib import Path
from typing import Any, Final

from mindgap.graph.tensors import TensorStore
from mindgap.workflows.diff import RunSettings, Subject, diff_many
from mindgap_campaign.selftest.fault_cases import FaultCase
from mindgap_campaign.selftest.ground_truth import Change, Effect
from mindgap_campaign.selftest.report import CaseRow
from mindgap_campaign.selftest.subjects import graph_of
from mindgap_campaign.selftest.trial import case_row

_SUBJECT: Final = "mlp"
_FAULTY_OPERATOR: Final = "aten.gelu.default"
#: What the outcome must be called, by kind of fault; the hang costs its deadline several times over.
_QUICK: Final = {"crash": "crash"}
_FULL: Final = {"crash": "crash", "hang": "timeout"}
_DEADLINE_S: Final = 6.0


def try_failures(quick: bool, seed: int) -> list[CaseRow]:
    """Tries a crash (and a hang, unless quick) in the middle of a graph. Called first, since workers start slowly."""
    rows: list[CaseRow] = []
    with tempfile.TemporaryDirectory(prefix="mindgap-selftest-") as name:
        folder = Path(name)
        tensors = TensorStore(folder / "tensors")
        graph = graph_of(_SUBJECT, seed, tensors)
        node = [n.op for n in graph.nodes].index(_FAULTY_OPERATOR)
        for kind, status in (_QUICK if quick else _FULL).items():
            when: dict[str, Any] = {"kind": kind, "when": {"op": _FAULTY_OPERATOR}}
            case = FaultCase(kind, _FAULTY_OPERATOR, (when,))
            file = folder / f"{kind}.toml"
            file.write_text(case.to_toml())
            report = diff_many(
                [Subject(_SUBJECT, lambda: graph)],
                [f"faulty/eager@faults={file}"],
                settings=RunSettings(deadline_s=_DEADLINE_S),
                tensors=tensors,
            )
            effect = Effect({node: Change(math.inf, math.inf)}, math.inf, failed=True)
            row = case_row(_SUBJECT, case, effect, report.rows[0])
            rows.append(row if row.status == status else _misnamed(row, status))
    return rows


def _misnamed(row: CaseRow, status: str) -> CaseRow:
    """Counts a failure with the wrong status as not found."""
    return dataclasses.replace(row, found=False, detail=f"the outcome was {row.status}, not {status}: {row.detail}")
