"""Reads a report from a store."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final, cast

from mindgap.graph.compare.culprit import Culprit, culprit_of
from mindgap.graph.compare.reason import Reason
from mindgap.graph.compare.row_metrics import RowMetrics
from mindgap.graph.compare.verdict import FINDINGS, Contradiction, Fault, OtherDecision, Weakness
from mindgap.platforms.delegation import Delegation
from mindgap.platforms.name import recorded
from mindgap.platforms.protocol import ARITHMETIC, EXECUTION
from mindgap.results.advice import advised
from mindgap.results.answer_rows import ANSWER_RUNS
from mindgap.results.rows import (
    Model,
    OwnPath,
    PlatformFacts,
    Refused,
    Report,
    Row,
    Totals,
    identities,
    non_finite,
    ordered,
)
from mindgap.results.store import Store, StoreError, metrics_of, outcome_of
from mindgap.run.outcome import Outcome

#: What rows raise that hold other values than mindgap writes, behind checksums that fit.
_DAMAGED: Final = (AttributeError, LookupError, TypeError, ValueError, OverflowError)
_TOTALS = """
SELECT (SELECT count(*) FROM models WHERE run = $run) AS models,
       count(DISTINCT platform) AS platforms,
       count(*) AS rows,
       (SELECT count(*) FROM refused WHERE run = $run) AS refused,
       count(*) FILTER (broken <> '') + (SELECT count(*) FROM refused WHERE run = $run AND broken <> '') AS broken,
       histogram(word) AS words,
       histogram(status) AS statuses,
       count(*) FILTER (list_contains($findings, word)) AS findings,
       -- A finding that the judge did not look at is one fault.
       coalesce(sum(greatest(1, CASE WHEN judge_seconds IS NULL THEN 1 ELSE coalesce(len(f.faults), 1) END))
                FILTER (list_contains($findings, word)), 0) AS faults
FROM verdicts LEFT JOIN faults f USING (run, model, graph, platform, reference)
WHERE run = $run
"""


def runs(store: Store) -> list[str]:
    """The runs in a store that have rows of verdicts, oldest first."""
    rows = [row for row in store.rows_of("runs") if row["kind"] not in (None, *ANSWER_RUNS)]
    return [row["run"] for row in sorted(rows, key=lambda row: (str(row["created"]), row["run"]))]


def totals(store: Store, run: str) -> Totals:
    """The counts of a run, by one query. A store knows no baseline: every finding is new."""
    (totals_row,) = store.rows(_TOTALS, {"run": run, "findings": list(FINDINGS)})
    words: Counter[str] = Counter(totals_row.pop("words"))
    statuses: dict[str, int] = dict(totals_row.pop("statuses") or {})
    totals_row |= {
        "faults": int(totals_row["faults"]),
        "new": totals_row["findings"],
        "new_faults": int(totals_row["faults"]),
    }
    return Totals(words=ordered(words), statuses=statuses, known=0, **totals_row)


def report_of(store: Store, run: str | None = None) -> Report:
    """The report of a run, by default of the youngest.

    Raises `StoreError` where there is none, and for rows with values that mindgap does not write.

    Equal to the one that `diff_many` returned, but for what a baseline added, and for examples and scripts of rows. Of
    a run that was cut short: the models that were finished, and the rows that were.
    """
    known = runs(store)
    if run is None and not known:
        raise StoreError(f"{store.url} holds no run: `mindgap diff … --store {store.url}` writes one")
    run = run or known[-1]
    if run not in known:
        raise StoreError(f"{store.url} holds no run {run}; it holds {', '.join(known[-10:]) or 'none'}")
    try:
        return _report(store, run)
    except _DAMAGED as error:
        why = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise StoreError(
            f"{store.url}: rows of run {run} hold what mindgap does not write ({why}): copy it again, or run again"
        ) from None


def _report(store: Store, run: str) -> Report:
    (about,) = store.rows_of("runs", run)
    outcomes: dict[tuple[str, str], Outcome] = {}
    for row in store.rows_of("outcomes", run):
        outcomes[row["model"], row["platform"]] = outcome_of(row)
    reference = recorded(about["reference"])
    settings: dict[str, Any] = json.loads(about["settings"])
    require_whole(store, run)
    models = [
        _model(row, outcomes.get((row["model"], reference)), settings.get("sources", {}))
        for row in _ordered(store.rows_of("models", run))
    ]
    report = Report(
        reference=reference,
        platforms=_platforms(store, run),
        models=tuple(models),
        rows=_rows(store, run, [model.name for model in models], settings["platforms"], outcomes),
        refused=tuple(
            Refused(row["source"], row["reason"], row["broken"]) for row in _ordered(store.rows_of("refused", run))
        ),
        created=about["created"].isoformat(timespec="seconds"),
        version=about["version"],
        seconds=about["seconds"] or 0.0,
    )
    counted = totals(store, run)
    if counted != report.totals:
        raise StoreError(f"{store.url}: the tables of run {run} do not fit together: {counted} ≠ {report.totals}")
    return report


def require_whole(store: Store, run: str) -> None:
    """Raises `StoreError` where the store has fewer rows of a run than the run had written at its end."""
    for about in store.rows_of("runs", run):
        for table, written in json.loads(about["settings"] or "{}").get("rows", {}).items():
            if (count := store.count_of(table, run)) < written:
                raise StoreError(
                    f"{store.url}/tables/{table}: {written - count} of {written} rows of run {run} are gone "
                    "with a segment that was removed: copy it again, or run again"
                )


def _ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["position"])


def _platforms(store: Store, run: str) -> tuple[PlatformFacts, ...]:
    names = ("platform", "backend", "available", "reason", "hardware", "versions", "options")
    facts = [
        PlatformFacts(
            **{name: row[name] for name in names},
            execution=str(json.loads(row["description"] or "{}").get(EXECUTION, "")),
            arithmetic=str(json.loads(row["description"] or "{}").get(ARITHMETIC, "")),
        )
        for row in _ordered([each for each in store.rows_of("platforms", run) if each["fingerprint"] == ""])
    ]
    return tuple(replace(each, platform=recorded(each.platform)) for each in facts)


def _model(row: dict[str, Any], outcome: Outcome | None, sources: dict[str, str]) -> Model:
    outcome = outcome or Outcome(recorded(""), row["graph"], "crash", message="the reference's outcome was not written")
    return Model(
        name=row["model"],
        digest=row["graph"],
        nodes=row["nodes"],
        operators=row["operators"],
        inputs=tuple(row["inputs"]),
        outputs=tuple(row["outputs"]),
        reference_status=outcome.status,
        reference_message=outcome.message,
        reference_digests=identities(outcome),
        timings={**row["timings"], **outcome.timings},
        source=sources.get(row["model"], ""),
        non_finite=non_finite(outcome),
    )


def _rows(
    store: Store, run: str, models: list[str], platforms: list[str], outcomes: dict[tuple[str, str], Outcome]
) -> tuple[Row, ...]:
    rows_by_model: defaultdict[str, dict[str, Row]] = defaultdict(dict)
    weak = {
        (row["model"], row["platform"]): tuple(Weakness(**each) for each in row["weaknesses"])
        for row in store.rows_of("weaknesses", run)
    }
    unfit = {
        (row["model"], row["platform"]): tuple(
            Contradiction(**(each | {"of": tuple(each["of"])})) for each in row["contradictions"]
        )
        for row in store.rows_of("contradictions", run)
    }
    decisions = {
        (row["model"], row["platform"]): tuple(OtherDecision(**each) for each in row["decisions"])
        for row in store.rows_of("decisions", run)
    }
    faults = {
        (row["model"], row["platform"]): tuple(_fault(each) for each in row["faults"])
        for row in store.rows_of("faults", run)
    }
    delegations = {
        (row["model"], row["platform"]): Delegation(**{each.name: row[each.name] for each in fields(Delegation)})
        for row in store.rows_of("delegations", run)
    }
    own_paths = {(row["model"], row["platform"]): _own_path(row) for row in store.rows_of("own_paths", run)}
    reasons = {(row["model"], row["platform"]): row["reasons"] for row in store.rows_of("reasons", run)}
    for row in store.rows_of("verdicts", run):
        key = row["model"], row["platform"]
        one = replace(_row(row, outcomes.get(key)), delegation=None if row["broken"] else delegations.get(key))
        # A row that was decided without the judge may follow one that was judged.
        one = replace(one, own_path=own_paths.get(key))
        if row["judge_seconds"] is not None or one.own_path is not None:
            one = replace(
                one,
                weaknesses=weak.get(key, ()),
                faults=faults.get(key, ()),
                contradictions=unfit.get(key, ()),
                decisions=decisions.get(key, ()),
            )
        rows_by_model[row["model"]][row["platform"]] = advised(_with_reasons(one, reasons.get(key)))
    rank = {name: position for position, name in enumerate(platforms)}
    return tuple(
        rows_by_model[model][name] for model in models for name in sorted(rows_by_model[model], key=lambda n: rank[n])
    )


def _row(row: dict[str, Any], outcome: Outcome | None) -> Row:
    if row["broken"]:
        # mindgap failed on it: what the platform did is in the store, and the row does not have it.
        outcome = None
    timings = dict(outcome.timings) if outcome else {}
    if row["judge_seconds"] is not None:
        timings["judge"] = row["judge_seconds"]
    metrics = metrics_of(row)
    verdicts = tuple(metrics.pop("verdicts", ()))
    return Row(
        model=row["model"],
        platform=recorded(row["platform"]),
        status=row["status"],
        verdict=row["verdict"],
        metrics=cast("RowMetrics", metrics),
        verdicts=verdicts,
        culprit=_culprit(row),
        blame=row["blame"],
        message=outcome.message if outcome else "",
        signature=outcome.signature if outcome else "",
        detail=row["detail"],
        profiles=row["profiles"],
        timings=timings,
        digests=identities(outcome) if outcome else (),
        non_finite=non_finite(outcome) if outcome else (),
        nodes=tuple((each["node"], each["op"], each["role"]) for each in row["nodes"]),
        broken=row["broken"],
        unjudged=row["word"] == "unjudged",
    )


def _with_reasons(row: Row, text: str | None) -> Row:
    """The row with what the table `reasons` has of it; as it is for a store without."""
    if not text:
        return row
    stored = json.loads(text)
    own = row.own_path and replace(row.own_path, reasons=_reasons(stored["own_path"]))
    faults = row.faults
    if len(faults) == len(stored["faults"]):
        pairs = zip(faults, stored["faults"], strict=True)
        faults = tuple(replace(fault, reasons=_reasons(each)) for fault, each in pairs)
    return replace(row, reasons=_reasons(stored["row"]), own_path=own, faults=faults)


def _reasons(stored: Sequence[Mapping[str, Any]]) -> tuple[Reason, ...]:
    reasons: list[Reason] = []
    for each in stored:
        given: dict[str, Any] = {**each, "names": tuple(each["names"])}
        reasons.append(Reason(**given))
    return tuple(reasons)


def _own_path(row: dict[str, Any]) -> OwnPath:
    return OwnPath(
        row["status"], row["way"], row["detail"], tuple(row["asked"]), tuple(row["training"]), row["seconds"]
    )  # fmt: skip


def _fault(row: dict[str, Any]) -> Fault:
    return Fault(_culprit(row), row["verdict"], row["blame"], tuple(row["nodes"]), row["detail"])


def _culprit(row: dict[str, Any]) -> Culprit | None:
    """The culprit in a row of `verdicts`, or in a fault."""
    if row["culprit_op"] is None:
        return None
    return culprit_of(row["culprit_node"], row["culprit_op"], row["culprit_label"] or "")
