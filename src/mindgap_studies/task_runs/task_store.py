"""Keeps truths and predictions of a task study in a store, so that a run that was cut goes on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from mindgap import __version__
from mindgap.platforms.listing import platform_info
from mindgap.platforms.name import parse
from mindgap.results.store import Store
from mindgap_studies.results.predictions import ComparedForm, Flip, NearTie, Prediction, Truth


def versions_of(platform: str) -> str:
    return json.dumps({"mindgap": __version__, **platform_info(parse(platform)).versions}, sort_keys=True)


class TaskStore:
    """The rows of one run. Without a store it remembers nothing of earlier runs and keeps nothing."""

    def __init__(self, store: Store | None, run: str, columns: Sequence[ComparedForm]) -> None:
        self._store, self._run = store, run
        self._columns = {column.name: column for column in columns}
        self._versions = {column.platform: versions_of(column.platform) for column in columns}

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Writes what is asked. `facts`: columns of the table `tasks`."""
        self._facts = {"run": self._run, "created": datetime.now(UTC), "version": __version__, **facts}
        self._append("tasks", [{**self._facts, "seconds": None}])

    def end(self, flips: Iterable[Flip], ties: Iterable[NearTie], seconds: float) -> None:
        """Writes what was found at the end."""
        created = {"created": self._facts["created"]}
        self._append("near_ties", [{**_named(dataclasses.asdict(tie)), **created} for tie in ties])
        self._append("flips", [{**self._flip_row(flip), **created} for flip in flips])
        self._append("tasks", [{**self._facts, "seconds": seconds}])

    def truths(self) -> tuple[dict[int, Truth], dict[int, str]]:
        """Returns the truths that are known, and the problems of samples that have none."""
        good: dict[int, Truth] = {}
        bad: dict[int, str] = {}
        for row in self._rows("SELECT sample, labels, boxes, problem FROM truths WHERE run = $run ORDER BY sample"):
            if row["problem"]:
                bad[row["sample"]] = row["problem"]
            else:
                good[row["sample"]] = Truth(row["sample"], tuple(row["labels"]), tuple(row["boxes"]))
        return good, bad

    def predictions(self, column: ComparedForm) -> dict[int, Prediction]:
        """Returns the predictions of a column that were made with the versions of now."""
        rows = self._rows(
            "SELECT sample, labels, margin, confidence, loss, deviation, boxes, scores FROM predictions "
            "WHERE run = $run AND form = $form AND platform = $platform AND versions = $versions ORDER BY sample",
            form=column.form, platform=column.platform, versions=self._versions[column.platform],
        )  # fmt: skip
        for row in rows:
            row |= {name: tuple(row[name]) for name in ("labels", "boxes", "scores")}
        return {row["sample"]: Prediction(**row) for row in rows}

    def keep(
        self, truths: Iterable[Truth], problems: Mapping[int, str], found: Mapping[ComparedForm, Sequence[Prediction]]
    ) -> None:
        """Publishes what is known of a batch at once."""
        rows: list[dict[str, Any]] = [{**dataclasses.asdict(truth), "problem": ""} for truth in truths]
        rows += [{"sample": n, "labels": [], "boxes": [], "problem": reason} for n, reason in problems.items()]
        self._append("truths", rows)
        self._append("predictions", [
            {**dataclasses.asdict(one), "form": column.form, "platform": column.platform,
             "versions": self._versions[column.platform]}
            for column, predictions in found.items()
            for one in predictions
        ])  # fmt: skip

    def _flip_row(self, flip: Flip) -> dict[str, Any]:
        row = dataclasses.asdict(flip)
        column = self._columns[row.pop("column")]
        return {**_named(row), "form": column.form, "platform": column.platform}

    def _append(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if self._store is not None and rows:
            self._store.append(table, [{**row, "run": self._run} for row in rows])

    def _rows(self, query: str, **params: Any) -> list[dict[str, Any]]:
        return [] if self._store is None else self._store.rows(query, {"run": self._run, **params})


def _named(row: dict[str, Any]) -> dict[str, Any]:
    row["margin_limit"] = row.pop("limit")
    return row
