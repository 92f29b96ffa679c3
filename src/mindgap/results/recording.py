"""Writes rows, models and outcomes into a store while a session runs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from mindgap.graph import Graph
from mindgap.graph.compare.culprit import Culprit
from mindgap.graph.compare.verdict import Fault
from mindgap.platforms.delegation import delegation_of
from mindgap.platforms.name import PlatformName
from mindgap.platforms.protocol import ARITHMETIC, EXECUTION
from mindgap.results.rows import Model, PlatformFacts, Refused, Row
from mindgap.results.run_record import Describe, RunRecord
from mindgap.results.settings import RunSettings
from mindgap.results.store import TABLES, Store, StoreError, Writer, graph_row, metric_columns, new_run, outcome_row
from mindgap.results.store.commits import PendingRows
from mindgap.results.store.records import writable
from mindgap.run.identity import digest_of
from mindgap.run.outcome import Outcome


@contextmanager
def recording(store: Store, settings: RunSettings, describe: Describe) -> Generator[Recording]:
    """A recording of a new run into the store.

    Where the store cannot be written, the recording keeps nothing more, and `failure` is the error.
    """
    writer = store.writer()
    record = Recording(store, writer, settings, describe, forgiving=True)
    try:
        yield record
    finally:
        if record.failure is None:
            with record.forgiving():
                writer.close()


class Recording(RunRecord):
    """One run. Thread-safe. What is not `finish`ed stays in the store as a run that was cut short."""

    def __init__(
        self, store: Store | PendingRows | None, writer: Writer | None, settings: RunSettings, describe: Describe,
        kind: str = "diff", run: str | None = None, *, forgiving: bool = False,
    ) -> None:  # fmt: skip
        """`run`: the run to go on with, or None for a new one. `forgiving`: a `StoreError` is kept as `failure`."""
        self._forgiving = forgiving
        #: Why nothing more is written.
        self.failure: StoreError | None = None
        self.run = run or new_run(kind)
        self._kind = kind
        self._store = store
        self._writer = writer
        self._settings = settings
        self._describe = describe
        self._start: dict[str, Any] = {}
        #: Of a run of `diff`: the keys of the rows that it has written, by table.
        self._keys: dict[str, set[tuple[Any, ...]]] = {}
        self._facts: dict[str, tuple[int, PlatformFacts]] = {}
        self._fingerprints: set[tuple[str, str]] = set()

    def begin(
        self, created: str, version: str, facts: Sequence[PlatformFacts], wanted: Sequence[PlatformName],
        more: Mapping[str, Any] | None = None, order: Sequence[PlatformName] = (),
    ) -> None:  # fmt: skip
        """The run itself, what is known of platforms, and those that get rows. `more`: settings besides. `order`: of
        the run's platforms, where `facts` are those of some."""
        settings = {**dataclasses.asdict(self._settings), "platforms": list(wanted), **(more or {})}
        self._start = {
            "run": self.run,
            "kind": self._kind,
            "created": datetime.fromisoformat(created),
            "version": version,
            "reference": self._settings.reference,
            "settings": json.dumps(settings),
        }
        names = list(dict.fromkeys([*order, *(fact.platform for fact in facts)]))
        self._facts = {fact.platform: (names.index(fact.platform), fact) for fact in facts}
        self._append("runs", self._start)
        self._append("platforms", [self._platform(fact.platform) for fact in facts])

    def graph(self, name: str, graph: Graph) -> None:
        """A graph and its bytes, before anything runs it. Its weights stay where they are."""
        if self._store is not None:
            with self.forgiving():
                self._store.put_graph(graph)
            self._append("graphs", graph_row(graph, name=writable(name), source=writable(name)))

    def variant(self, name: str, graph: Graph, description: str) -> None:
        """A graph whose bytes are not kept: `description` is JSON from which it is made again."""
        self._append("graphs", graph_row(graph, name=writable(name), source="", variant=description))

    def model(self, position: int, model: Model, reference: Outcome) -> None:
        """What the run calls a graph, and how its reference fared."""
        captured = {name: seconds for name, seconds in model.timings.items() if name not in reference.timings}
        self._append(
            "models",
            {
                "run": self.run,
                "model": model.name,
                "position": position,
                "graph": model.digest,
                "nodes": model.nodes,
                "operators": model.operators,
                "inputs": list(model.inputs),
                "outputs": list(model.outputs),
                "timings": captured,
            },
        )
        self._outcome(model.name, reference)

    def row(self, graph: Graph | str, row: Row, outcome: Outcome | None) -> None:
        """What a platform did and what was decided of it. `graph`: or its digest. `outcome`: None for the reference."""
        if outcome is not None:
            self._outcome(row.model, outcome if row.broken else as_reported(outcome, row))
        self._verdict(graph, row)

    def _outcome(self, model: str, outcome: Outcome) -> None:
        row = outcome_row(self.run, model, outcome)
        self._append("outcomes", row)
        delegation = delegation_of(outcome.facts)
        if delegation is not None:
            key = {name: row[name] for name in TABLES["delegations"].key}
            self._append("delegations", {**key, **dataclasses.asdict(delegation)})
        seen = (outcome.platform, outcome.fingerprint)
        if outcome.fingerprint and seen not in self._fingerprints and outcome.platform in self._facts:
            # The first time that a platform does something records what it is.
            self.described(outcome.platform, outcome.fingerprint)

    def described(self, platform: PlatformName, fingerprint: str) -> None:
        """What a platform reports of itself, by its fingerprint."""
        self._fingerprints.add((platform, fingerprint))
        description = json.dumps(dict(self._describe(platform)), default=str)
        self._append("platforms", self._platform(platform, fingerprint, description))

    def _verdict(self, graph: Graph | str, row: Row) -> None:
        key = {
            "run": self.run,
            "model": row.model,
            "graph": graph if isinstance(graph, str) else digest_of(graph),
            "platform": row.platform,
            "reference": self._settings.reference,
        }
        self._append(
            "verdicts",
            {
                **key,
                "status": row.status,
                "verdict": row.verdict,
                "word": row.word,
                "blame": row.blame,
                **_culprit_columns(row.culprit),
                **metric_columns(_with_verdicts(row)),
                "profiles": dict(row.profiles),
                "detail": writable(row.detail),
                "nodes": [{"node": node, "op": op, "role": role} for node, op, role in row.nodes],
                "judge_seconds": row.timings.get("judge"),
                "broken": writable(row.broken),
            },
        )

        if row.own_path is not None:
            own = row.own_path
            about = {**dataclasses.asdict(own), "asked": list(own.asked), "training": list(own.training)}
            del about["reasons"]
            self._append("own_paths", {**key, **about, "detail": writable(own.detail)})
        if (reasons := reasons_json(row)) or "judge" in row.timings or row.own_path is not None:
            self._append("reasons", {**key, "reasons": reasons})
        if "judge" in row.timings or row.own_path is not None:
            weaknesses = [{**dataclasses.asdict(each), "reason": writable(each.reason)} for each in row.weaknesses]
            self._append("weaknesses", {**key, "weaknesses": weaknesses})
            if row.contradictions:
                unfit = [dataclasses.asdict(each) for each in row.contradictions]
                self._append("contradictions", {**key, "contradictions": unfit})
            if row.decisions:
                others = [{**dataclasses.asdict(each), "text": writable(each.text)} for each in row.decisions]
                self._append("decisions", {**key, "decisions": others})
            self._append("faults", {**key, "faults": [_fault_row(each) for each in row.faults]})

    def keep(self, key: str, data: bytes) -> None:
        """The bytes of a graph, before the row that makes them worth keeping."""
        if self._store is not None:
            self._store.put_graph_bytes(key, data)

    def block(self, row: Mapping[str, Any]) -> None:
        """How far a block of a campaign's cases has come."""
        self._append("blocks", {"run": self.run, **row})

    def expenses(self, rows: list[dict[str, Any]]) -> None:
        """Processor seconds that a session has taken so far."""
        self._append("expenses", rows)

    def refused(self, position: int, refused: Refused) -> Refused:
        """A source that gave no graph, which is returned."""
        row = {"run": self.run, "source": writable(refused.source), "position": position}
        self._append("refused", {**row, "reason": writable(refused.reason), "broken": writable(refused.broken)})
        return refused

    def finish(self, seconds: float) -> None:
        """The run came to its end. Its settings say how many rows it has in each table: a reader misses lost ones."""
        counts = {"rows": {table: len(keys) for table, keys in self._keys.items()}}
        settings = json.dumps({**json.loads(self._start["settings"]), **counts})
        self._append("runs", {**self._start, "settings": settings, "seconds": seconds})
        if self._writer is not None:
            with self.forgiving():
                self._writer.flush()

    def _append(self, table: str, rows: Mapping[str, Any] | list[dict[str, Any]]) -> None:
        if self._writer is not None:
            with self.forgiving():
                self._writer.append(table, rows)
            if self._kind == "diff" and "run" in (key := TABLES[table].key) and table != "runs":
                written = self._keys.setdefault(table, set())
                for row in [rows] if isinstance(rows, Mapping) else rows:
                    written.add(tuple(row.get(name) for name in key))

    @contextmanager
    def forgiving(self) -> Generator[None]:
        """Keeps a `StoreError` as `failure` and writes nothing more, if this recording is forgiving."""
        try:
            yield
        except StoreError as error:
            if not self._forgiving:
                raise
            self.failure = self.failure or error
            self._store = self._writer = None

    def _platform(self, name: str, fingerprint: str = "", description: str | None = None) -> dict[str, Any]:
        position, fact = self._facts[name]
        columns = dataclasses.asdict(fact)
        execution, arithmetic = columns.pop(EXECUTION), columns.pop(ARITHMETIC)
        if execution:
            # They have no columns of their own: what ran describes it, and what has not run yet has only this.
            description = description or json.dumps({EXECUTION: execution, ARITHMETIC: arithmetic})
        return {
            "run": self.run,
            "fingerprint": fingerprint,
            "position": position,
            "description": description,
            **columns,
        }


def as_reported(outcome: Outcome, row: Row) -> Outcome:
    """The outcome as its row has it: a platform that ran once and failed the second time has failed."""
    return dataclasses.replace(outcome, status=row.status, message=row.message, signature=row.signature)


def _with_verdicts(row: Row) -> dict[str, Any]:
    """The metrics with each output's verdict, which stores keep among them."""
    return {**row.metrics, "verdicts": list(row.verdicts)} if row.verdicts else {**row.metrics}


def reasons_json(row: Row) -> str:
    """Returns what the table `reasons` holds of a row; empty for a row without reasons."""
    own = row.own_path.reasons if row.own_path is not None else ()
    given = {"row": row.reasons, "own_path": own, "faults": [each.reasons for each in row.faults]}
    if not (row.reasons or own or any(each.reasons for each in row.faults)):
        return ""
    return json.dumps(given, default=dataclasses.asdict)


def _fault_row(fault: Fault) -> dict[str, Any]:
    """What a store holds of a fault: neither its example nor its script."""
    return {
        "verdict": fault.verdict,
        "blame": fault.blame,
        **_culprit_columns(fault.culprit),
        "nodes": list(fault.nodes),
        "detail": writable(fault.detail),
    }


def _culprit_columns(culprit: Culprit | None) -> dict[str, Any]:
    return {
        "culprit_node": culprit and culprit.node,
        "culprit_op": culprit and culprit.op,
        "culprit_label": culprit and writable(culprit.label),
    }
