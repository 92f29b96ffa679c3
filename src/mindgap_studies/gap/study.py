"""Runs every table of the study over one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from mindgap.graph.compare.verdict import FINDINGS
from mindgap.results.from_store import require_whole
from mindgap.results.store import Store, StoreError
from mindgap_studies.gap.agreement import CLASSES, PRECISION
from mindgap_studies.gap.compiled import COMPILED
from mindgap_studies.gap.consistency import CONSISTENCY, TOLERANCES
from mindgap_studies.gap.coverage import BREADTH, COVERAGE, NEVER_RAN
from mindgap_studies.gap.failures import COMPILE_FAILURES, FAILURES, NOT_GIVEN, SIGNATURES
from mindgap_studies.gap.reconcile import Check, checks
from mindgap_studies.gap.speed import MODEL_TIMES, PORTED, SLOWDOWN
from mindgap_studies.gap.totals import MAKEUP, TOTALS
from mindgap_studies.gap.vocabulary import VERDICTS, listed
from mindgap_surveys.table import StudyTables, TableQuery, tables_object

_RANK: Final = f"list_position([{', '.join(repr(str(word)) for word in FINDINGS)}], word)"
CULPRITS: Final = TableQuery(
    name="findings", title="Findings by culprit",
    note="The operator at fault; where none is known, the platform's own words. Blame: which side is wrong when "
    "the operator is checked against an independent formulation.",
    empty="nothing was found: no platform did anything that rounding or a refusal does not explain",
    query=f"""
WITH found AS (
  SELECT v.word, coalesce(v.blame, '') AS blame, v.platform, v.graph, v.model,
         coalesce(v.culprit_op, left(split_part(o.signature, chr(10), 1), 120), '') AS culprit
  FROM (SELECT * {VERDICTS} AND word IN {listed(FINDINGS)}) AS v
  LEFT JOIN outcomes AS o
    ON o.run = v.run AND o.model = v.model AND o.graph = v.graph AND o.platform = v.platform AND v.broken = ''
)
SELECT word AS verdict, culprit, blame, platform, count(*) AS findings,
       count(DISTINCT graph) AS graphs, min(model) AS example
FROM found
GROUP BY word, culprit, blame, platform
ORDER BY {_RANK}, findings DESC, culprit, blame, platform
""",
)  # fmt: skip


#: In the order of the page. Each is one query.
TABLES: Final = (
    *(TOTALS, MAKEUP, FAILURES, CONSISTENCY, TOLERANCES, COMPILED, COMPILE_FAILURES, COVERAGE, CULPRITS, SLOWDOWN),
    *(PORTED, MODEL_TIMES),
    *(CLASSES, PRECISION, SIGNATURES, NEVER_RAN, NOT_GIVEN, BREADTH),
)
#: Kinds of runs that hold outcomes of models on platforms.
_KINDS: Final = ("diff", "campaign")
_RUNS: Final = """
SELECT run, kind, strftime(created, '%Y-%m-%d %H:%M:%S UTC') AS created, version, reference, seconds,
       (SELECT count(*) FROM outcomes AS o WHERE o.run = runs.run) AS outcomes
FROM runs ORDER BY runs.created, run
"""


@dataclass(frozen=True, slots=True)
class Study(StudyTables):
    """The study of one run. `seconds`: None for an unfinished run. `checks`: totals that must agree."""

    run: str
    kind: str
    created: str
    version: str
    reference: str
    seconds: float | None
    checks: tuple[Check, ...]

    @property
    def wrong(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.holds)


def gap(store: Store, run: str | None = None) -> Study:
    """Runs the study of a run, by default the latest suitable one. Raises `StoreError` if there is none."""
    about = _suitable_run(store, run)
    require_whole(store, about["run"])
    tables = tuple(each.table(store, about["run"]) for each in TABLES)
    finished = about["seconds"] is not None
    about.pop("outcomes")
    return Study(**about, tables=tables, checks=checks({table.name: table for table in tables}, finished=finished))


def gap_object(study: Study) -> dict[str, Any]:
    about = ("run", "kind", "created", "version", "reference", "seconds")
    tables = tables_object(study.tables)
    for table in study.tables:
        tables[table.name] |= {"empty": None if table.rows else table.empty, "query": table.query}
    return {
        **{name: getattr(study, name) for name in about},
        "checks": len(study.checks),
        "wrong": [[check.what, check.left, check.right] for check in study.wrong],
        "tables": tables,
    }


def _suitable_run(store: Store, run: str | None = None) -> dict[str, Any]:
    """Returns the run's row of `runs`, with the number of its outcomes. Raises `StoreError`."""
    known = store.rows(_RUNS)
    if run is not None:
        chosen = [row for row in known if row["run"] == run]
        if not chosen:
            names = ", ".join(row["run"] for row in known[-10:]) or "none"
            raise StoreError(f"{store.url} holds no run {run}; it holds {names}")
        if chosen[0]["kind"] not in _KINDS or not chosen[0]["outcomes"]:
            kind, outcomes = chosen[0]["kind"], chosen[0]["outcomes"]
            raise StoreError(
                f"{store.url}: run {run} is of kind {kind} with {outcomes} outcomes: a study needs one of "
                f"{' or '.join(_KINDS)} with some"
            )
        return chosen[0]
    fit = [row for row in known if row["kind"] in _KINDS and row["outcomes"]]
    if not fit:
        for row in known:
            require_whole(store, row["run"])
        raise StoreError(
            f"{store.url} holds no run with outcomes: `mindgap campaign run` and `mindgap diff … --store {store.url}` "
            "write one"
        )
    return fit[-1]
