"""Implements `mindgap study`, which prints the tables of a study of a store."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Annotated

import typer

from mindgap.cli.streams import Exit, complain, result_stream
from mindgap.results.store import Store
from mindgap_studies.cli.study_deviations import deviations
from mindgap_studies.cli.study_porting import porting
from mindgap_studies.cli.study_speed import speed
from mindgap_studies.cli.study_task import task
from mindgap_surveys.cli.study_text import AsJson, Csv, Html, StudyFiles

if TYPE_CHECKING:
    from mindgap_studies.gap import Study

# Where one is missing, the command is not loaded, and the extra that brings it is named.
for _library in ("PIL", "scipy"):
    importlib.import_module(_library)
study = typer.Typer(no_args_is_help=True, help="The tables and figures of a published study, from one's own runs.")
study.command()(deviations)
study.command()(speed)
study.command()(task)
study.command("portability")(porting)


@study.command()
def gap(
    store: Annotated[str, typer.Argument(metavar="STORE", help="What `diff --store` or a campaign wrote.")],
    run: Annotated[str | None, typer.Option(metavar="RUN", help="Which run (default: the latest that fits).")] = None,
    html: Html = None,
    csv: Csv = None,
    as_json: AsJson = False,
) -> int:
    """Run the study of "Mind the Gap": failures by cause, consistency, compiled against eager, coverage, findings.

    Example: mindgap study gap out/store --html study.html --csv study
    """
    from mindgap_studies.gap import gap as studied, gap_object
    from mindgap_studies.report.gap_page import gap_page

    files = StudyFiles(html, csv, as_json)
    files.check()
    study = studied(Store(store, create=False), run)
    with result_stream() as out:
        files.write(lambda: gap_page(study), study.tables, lambda: gap_object(study), out)
    return _warned(study)


def _warned(study: Study) -> Exit:
    finished = study.seconds is not None
    if not finished:
        complain(f"run {study.run} has not come to its end: these are the figures of what it had written")
    for check in study.wrong:
        complain(f"totals do not agree: {check.what}: {check.left} and {check.right}")
    if not study.table("totals").rows:
        complain(f"NOTHING WAS COMPARED: no platform besides {study.reference} has a row in run {study.run}")
    # While a run is written, two queries may see two states of it.
    return Exit.TOOL_FAILED if study.wrong and finished else Exit.NOTHING_FOUND
