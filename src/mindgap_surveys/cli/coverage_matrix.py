"""Prints and writes the matrix of `mindgap coverage`: every operator, dtype and layout on every platform."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from rich.text import Text

from mindgap.cli.outputs import write_file
from mindgap.cli.tables import console, cut, plain_table

if TYPE_CHECKING:
    from rich.console import Console

    from mindgap_surveys.cli.coverage_static import MeasuredLists
    from mindgap_surveys.support.matrix import Matrix

#: Findings of one platform, and characters of a reason, that are printed; `--json` and `--csv` have all.
_FINDINGS = 12


def print_matrix(matrix: Matrix, out: TextIO) -> None:
    """Prints how many cells of each platform have each word, and the findings."""
    from mindgap_surveys.support.matrix import CELL_WORDS, findings_of

    page = console(out)
    counts = {platform: matrix.counts(platform) for platform in matrix.platforms}
    words = [word for word in CELL_WORDS if any(each[word] for each in counts.values())]
    title = "operator × dtype × layout, compared with cpu/eager"
    table = plain_table("platform", "measured", *words, title=title)
    for platform, each in counts.items():
        measured = f"{matrix.measured(platform)} of {len(matrix.keys)}"
        table.add_row(platform, measured, *(str(count) for word, count in each.items() if word in words))
    page.print(table)
    _print_groups(matrix, page)
    findings = findings_of(matrix)
    for platform in matrix.platforms:
        here = [each for each in findings if each.platform == platform]
        if not here:
            continue
        table = plain_table("culprit", "verdict", "cells", "in", "reason", title=f"what {platform} computes otherwise")
        for each in here[:_FINDINGS]:
            dtypes = ", ".join(dict.fromkeys(key.dtype for key in each.keys))
            table.add_row(
                each.culprit, each.verdict, str(len(each.keys)), dtypes, Text(_shortened(each.reason, each.culprit))
            )
        page.print(table)
        if len(here) > _FINDINGS:
            page.print(f"{platform}: {len(here) - _FINDINGS} more culprits (--csv FILE)", markup=False, highlight=False)


def _print_groups(matrix: Matrix, page: Console) -> None:
    """Prints how many packets run, in the form of the paper's row, and by group."""
    from mindgap_surveys.support.operator_groups import measured_shares, untried_packets

    shares = {platform: measured_shares(matrix, platform) for platform in matrix.platforms}
    groups = [each.group for each in next(iter(shares.values()))]
    table = plain_table(
        "platform", *groups, "lost", "not known", title="operators (packets) that run, of those that cpu/eager runs"
    )
    for platform, each in shares.items():
        unknown = untried_packets(matrix, platform)
        lost = (each[0].total - each[0].has - unknown) / max(each[0].total, 1)
        cells = (f"{share.has}/{share.total}" for share in each)
        table.add_row(platform, *cells, f"{lost:.1%}", str(unknown))
    page.print(table)


def _shortened(reason: str, culprit: str) -> str:
    return cut(reason.removeprefix(f"{culprit}; "))


def matrix_object(matrix: Matrix, platform: str) -> dict[str, Any]:
    """Returns the cells of a platform as JSON; nothing of a platform that is not there."""
    from mindgap_surveys.support.matrix import pass_of

    name = next((each for each in matrix.platforms if each == platform), None)
    if name is None:
        return {}
    cells = matrix.cells[name]
    rows = [{**key._asdict(), "pass": pass_of(key.op), **asdict(cells[key])} for key in matrix.keys]
    return {"words": dict(matrix.counts(name)), "cells": rows}


def write_page(file: Path, matrix: Matrix, lists: MeasuredLists | None) -> None:
    """Writes the page of a matrix, with what packages list where requested."""
    from mindgap import __version__
    from mindgap_surveys.report.coverage_page import coverage_page

    listed, disagreements = ((), ()) if lists is None else (lists.lists, lists.disagreements)
    write_file(file, coverage_page(matrix, __version__, listed, disagreements))


def matrix_csv(matrix: Matrix) -> str:
    """Returns all cells as CSV, a row for each."""
    from mindgap_surveys.support.matrix import cell_rows

    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(cell_rows(matrix))
    return text.getvalue()
