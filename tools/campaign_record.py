"""Writes what a campaign's shard found as a small store, which is committed: a lost store then costs nothing.

    python tools/campaign_record.py out/shard0 docs/campaigns/100k/shard-00
    python tools/campaign_record.py out/shard2 docs/campaigns/100k/shard-02 --of docs/campaigns/100k/shard-00
    python tools/campaign_record.py --page docs/campaigns/2026-11.md docs/campaigns/100k/shard-*

The record is a store of the same format without graphs, sketches of outputs and texts of calm rows, so that
`mindgap study gap`, `Store.merge` and every query of a campaign's page read it as they read the campaign. Digests of
graphs and outputs are cut. `--of` gives a shard the run of another record: the run of a plan has another name where the
catalogue has other graphs. The shards of a plan hold other variants in any case. `--page` merges records and writes the
tables of `study gap` into a page, between two marks.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from mindgap.graph.compare.verdict import FINDINGS
from mindgap.results.store import Store
from mindgap_studies.gap import gap
from mindgap_surveys.report.study_page import cell_text
from mindgap_surveys.table import StudyTable

#: What stands on the page, of the tables of `study gap`.
SHOWN: Final = (
    *("makeup", "totals", "failures", "consistency", "tolerances", "compiled", "coverage", "findings", "slowdown"),
    *("classes", "precision", "not_given"),
)
BEGIN, END = "<!-- tables -->", "<!-- end of tables -->"
MOST_ROWS: Final = 40

_DIGITS: Final = 12
_GRAPH: Final = f"right(graph, {_DIGITS}) AS graph"
_RUN: Final = "WHERE run = $run"
_FOUND: Final = f"word IN ({', '.join(repr(str(word)) for word in FINDINGS)}, 'unjudged', 'not_judged')"
#: Of each output: whether it has the bits of another platform's, and its NaN and infinities.
_OUTPUTS: Final = """list_transform(outputs, lambda o: {
  'dtype': '', 'shape': []::BIGINT[], 'digest': left(md5((o.dtype, o.shape, o.digest)::VARCHAR), 8),
  'nan': o.nan, 'pos_inf': o.pos_inf, 'neg_inf': o.neg_inf})"""


def _short(seconds: str) -> str:
    """Rounds to multiples of 2**-26 seconds (15 ns), whose doubles compress well."""
    return f"round({seconds} * {1 << 26}) / {1 << 26}"


_TIMINGS: Final = f"""MAP {{'load': {_short("timings['load']")},
  'run': {_short("coalesce(timings['median_run'], timings['second_run'], timings['run'])")}}}"""
#: How a graph came to be, without the description from which it can be made again.
_VARIANT: Final = """CASE WHEN coalesce(variant, '') = '' THEN variant ELSE json_object('kind', coalesce(
  variant ->> '$.kind', CASE WHEN json_array_length(variant, '$.parts') > 1 THEN 'merged'
                             WHEN json_array_length(variant, '$.parts') = 1 THEN 'region' ELSE 'variant' END))::VARCHAR
END"""
#: What is kept of each table.
KEPT: Final = {
    "runs": f"SELECT run, kind, created, version, reference, settings, seconds FROM runs {_RUN}",
    "platforms": "SELECT run, platform, fingerprint, position, backend, available, reason, hardware, versions, options "
    f"FROM platforms {_RUN}",
    "graphs": f"SELECT {_GRAPH}, nodes, operators, {_VARIANT} AS variant FROM graphs "
    f"WHERE graph IN (SELECT graph FROM models {_RUN})",
    "support": "SELECT DISTINCT fingerprint, platform, op, '' AS dtype, '' AS layout, answer FROM support "
    f"WHERE answer IN ('runs', 'decomposed') AND fingerprint IN (SELECT fingerprint FROM platforms {_RUN})",
    "models": f"SELECT run, model, position, {_GRAPH}, nodes, operators FROM models {_RUN}",
    "outcomes": f"SELECT run, model, {_GRAPH}, platform, status, op, left(signature, 300) AS signature, "
    f"left(message, 300) AS message, {_OUTPUTS} AS outputs, "
    f"{_TIMINGS} AS timings FROM outcomes {_RUN} ORDER BY model, platform",
    "verdicts": f"SELECT run, model, {_GRAPH}, platform, reference, status, verdict, word, blame, culprit_node, "
    f"culprit_op, remaining_precision, profiles, CASE WHEN {_FOUND} THEN max_abs END AS max_abs, "
    f"CASE WHEN {_FOUND} THEN left(detail, 200) END AS detail, "
    f"{_short('judge_seconds')} AS judge_seconds, broken FROM verdicts {_RUN} ORDER BY platform, model",
    "blocks": f"SELECT * EXCLUDE (_written, _writer, _seq) FROM blocks {_RUN}",
    "expenses": f"SELECT run, session, purpose, platform, round(seconds, 1) AS seconds FROM expenses {_RUN}",
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", type=Path, nargs="+", help="a campaign's directory and a new one; or records")
    parser.add_argument("--page", type=Path, metavar="FILE.md", help="write the tables of these records into a page")
    parser.add_argument("--of", type=Path, metavar="RECORD", help="the record whose run this shard is a part of")
    given = parser.parse_args()
    if given.page:
        return write_page(given.page, given.paths)
    if len(given.paths) != 2 or given.paths[1].exists():
        parser.error("name the directory of a campaign or shard, and a directory that is not there yet")
    campaign, to = given.paths
    source = Store(campaign, create=False)
    runs = [row["run"] for row in source.rows("SELECT run FROM runs WHERE kind = 'campaign'")]
    if len(runs) != 1:
        print(f"{campaign} holds {len(runs)} campaigns, where a record has one", file=sys.stderr)
        return 2
    name = Store(given.of, create=False).rows("SELECT run FROM runs")[0]["run"] if given.of else runs[0]
    print(record(source, runs[0], Store(to), name))
    return 0


def record(source: Store, run: str, to: Store, name: str = "") -> str:
    """Copies the run, under another name if one is given. Returns its counts.

    Raises `StoreError`, and `SystemExit` for a run without verdicts.
    """
    if not source.count_of("verdicts", run):
        raise SystemExit(f"{source.url} has no verdict of {run}")
    counts: dict[str, int] = {}
    with to.writer(rows=1 << 30, nbytes=1 << 40, age_s=3600) as writer:
        for table, query in KEPT.items():
            rows: list[dict[str, Any]] = source.rows(query, {"run": run})
            writer.append(table, [{**row, "run": name or run} if "run" in row else row for row in rows])
            counts[table] = len(rows)
    size = sum(file.stat().st_size for file in Path(to.url).rglob("*") if file.is_file())
    return f"{run}: {counts['models']:,} variants, {counts['verdicts']:,} rows, {size / 1024:,.0f} KB"


def write_page(page: Path, records: Sequence[Path]) -> int:
    """Writes the tables of the records between the marks of a page.

    Returns the exit status: 1 where their totals do not agree, 2 for a page without the marks.
    """
    with tempfile.TemporaryDirectory() as scratch:
        merged = Store(Path(scratch) / "merged")
        for each in records:
            merged.merge(Store(each, create=False))
        study = gap(merged)
    if study.wrong:
        print(f"totals do not agree: {', '.join(check.what for check in study.wrong)}", file=sys.stderr)
        return 1
    head, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        print(f"{page} lacks the marks {BEGIN} and {END}, between which the tables are written", file=sys.stderr)
        return 2
    counts = f"Records: {len(records)}. Totals that agree: {len(study.checks)}.\n"
    tables = "\n".join(markdown(study.table(name)) for name in SHOWN)
    page.write_text(f"{head}{BEGIN}\n{counts}\n{tables}{END}{tail}", encoding="utf-8")
    return 0


def markdown(table: StudyTable) -> str:
    """A table with its title and note; columns that are empty or zero throughout are left out."""
    rows = table.rows[:MOST_ROWS]
    if not rows:
        return f"### {table.title}\n{table.empty}\n"
    columns = [i for i, name in enumerate(table.columns) if name == "platform" or any(row[i] for row in rows)]
    lines = [f"### {table.title}", table.note, ""]
    lines.append("| " + " | ".join(table.columns[i].replace("_", " ") for i in columns) + " |")
    lines.append("|" + "---|" * len(columns))
    lines += ["| " + " | ".join(cell(table.columns[i], row[i]) for i in columns) + " |" for row in rows]
    left = len(table.rows) - len(rows)
    return "\n".join([*lines, *([f"\n{left:,} more rows are in the records."] if left else []), ""])


def cell(column: str, value: Any) -> str:
    """The text of a cell."""
    text = cell_text(column, value) if value is not None else ""
    return " ".join(text.split())[:90].replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.exit(main())
