"""Answers to the same question under other conditions, as rows: of `mindgap invariance` and `mindgap repeats`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final, Literal

from mindgap.results.store import Store, new_run

#: The kinds of runs that have answers, and no rows of verdicts.
ANSWER_RUNS: Final = ("invariance", "endpoint", "repeats")
#: - `passed`: as it must be. `found`: a finding. `unknown`: it did not run, or is not judged.
State = Literal["passed", "found", "unknown"]


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """One answer under one condition.

    subject: a model, an operator. platform: or the address of a server. question, label: what was changed, and how.
    verdict: in the words of the command. state: what the verdict means for the exit status.
    numbers: what was measured, by name.
    """

    subject: str
    platform: str
    question: str
    label: str
    verdict: str
    state: State
    detail: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict[str, float])


def record_answers(store: Store, kind: str, rows: Sequence[AnswerRow], settings: Mapping[str, Any]) -> str:
    """Writes a run and its rows. `kind`: one of `ANSWER_RUNS`. Returns the run's name. Raises `StoreError`."""
    run = new_run(kind)
    about = {
        "run": run,
        "kind": kind,
        "created": datetime.now(UTC),
        "version": version("mindgap"),
        "reference": "",
        "settings": json.dumps({**settings, "rows": {"answers": len(rows)}}),
    }
    with store.writer() as writer:
        writer.append("runs", about)
        numbers = [{name: float(number) for name, number in row.numbers.items()} for row in rows]
        answers = [{"run": run, **asdict(row), "numbers": each} for row, each in zip(rows, numbers, strict=True)]
        writer.append("answers", answers)
    return run
