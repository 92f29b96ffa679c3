"""Runs a model file that has no graph, or that the reference platform reads too, and judges the runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mindgap.graph import Array, MindgapError
from mindgap.graph.activity import report_activity
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.judge.pipeline.file_rows import failures_of_file, near, rows_of_file
from mindgap.judge.pipeline.file_versions import with_file_versions
from mindgap.judge.pipeline.model_files import referee_of
from mindgap.judge.pipeline.outcome_rows import row_or_failure
from mindgap.own_path.own_program import OwnProgram
from mindgap.own_path.runs import FileNodes, OwnRun
from mindgap.platforms.name import PlatformName
from mindgap.results.advice import advised
from mindgap.results.rows import Row
from mindgap.source_worker.client import FileInvalid, FileUntranslated

#: What a program gave on a platform by the way of its users.
RunOn = Callable[[PlatformName], OwnRun | None]


@dataclass(frozen=True, slots=True)
class FileSubject:
    """A model file without a graph. `report`: reports what is being done on a platform."""

    name: str
    program: OwnProgram
    context: RunContext
    report: Callable[[str, str], None]

    def rows(
        self, platforms: Sequence[PlatformName], run_on: RunOn, error: FileUntranslated
    ) -> list[Row] | MindgapError:
        """Returns a row for each platform, or why none of them runs the file. `error`: why it has no graph."""
        runs: dict[PlatformName, OwnRun | None] = {}

        def ran(platform: PlatformName) -> Row:
            runs[platform] = run_on(platform)
            return Row(self.name, platform, "ok", None)

        failed: dict[PlatformName, Row] = {}
        for platform in platforms:
            self.report(platform, "running the file")
            failed[platform] = row_or_failure(self.name, platform, partial(ran, platform))
        if not any(run is not None and run.outputs is not None for run in runs.values()):
            why = failures_of_file(runs)
            return MindgapError(f"{error.reason}; {why}") if why else error
        referee = referee_of(self.program.run, next(run.way for run in runs.values() if run is not None))
        reference = self.context.settings.reference
        if self.program.reads(reference):
            rows = self._version_rows(runs, self.program.run(reference), referee)
        else:
            rows = rows_of_file(
                self.name, runs, error.reason, referee, self._nodes, valid=not isinstance(error, FileInvalid)
            )
        judged = {row.platform: row for row in rows}
        return [advised(judged.get(platform, row)) for platform, row in failed.items()]

    def _nodes(self, platform: PlatformName, apart: float | None) -> FileNodes:
        """The nodes that a platform computes otherwise. Of one that computes floats in fewer bits none says that it is
        wrong."""
        computes = self.context.dtypes(platform).get("float32", {}).get("computes_in", "float32")
        return self.program.wrong_nodes(platform, apart) if computes == "float32" else FileNodes()

    def _version_rows(
        self, runs: Mapping[PlatformName, OwnRun | None], base: OwnRun | None,
        referee: Mapping[PlatformName, OwnRun | None],
    ) -> list[Row]:  # fmt: skip
        """The rows against the reference, which reads the file too. `referee`: the reference evaluator's run."""
        known = next((run.outputs for run in referee.values() if run is not None), None) or ()

        def is_far(outputs: Sequence[Array]) -> bool:
            return not near(outputs, known)

        rows: list[Row] = []
        for platform, run in runs.items():
            row = Row(self.name, platform, "ok", None)
            if base is not None and run is not None:
                sides = [dataclasses.replace(each, eager=known) for each in (base, run)]
                rows.append(with_file_versions(row, sides[0], sides[1], is_far, self.program.wrong_nodes))
        return rows


def of_two_versions(row: Row, program: OwnProgram, comparison: GraphComparison, platform: PlatformName) -> Row:
    """Returns the row of a graph with the difference of the model file, which the reference reads too."""
    from mindgap.judge.oracle import OracleError

    report_activity("running the file")
    base, run = program.run(comparison.context.settings.reference), program.run(platform)
    if base is None or run is None or row.status == "not_run":
        return row

    def is_far(outputs: Sequence[Array]) -> bool | None:
        try:
            return any(comparison.beyond_rounding(platform, outputs))
        except OracleError:
            return None

    return with_file_versions(row, base, run, is_far, program.wrong_nodes)
