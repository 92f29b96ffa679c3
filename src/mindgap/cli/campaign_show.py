"""Implements `mindgap campaign findings` and `mindgap campaign show`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from mindgap.cli.outputs import check_files, write_file
from mindgap.cli.status import Exit
from mindgap.cli.streams import complain, result_stream
from mindgap.cli.tables import console, plain_table

if TYPE_CHECKING:
    from mindgap.workflows.campaign.results.findings import FindingGroup

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The directory of the campaign.")]
_LONGEST = 110


def findings(
    directory: Directory,
    words: Annotated[
        list[str] | None, typer.Option("--word", help="Only findings of this verdict; may repeat (default: all).")
    ] = None,
    platform: Annotated[
        str, typer.Option("-p", "--platform", metavar="PLATFORM", help="Only findings on this platform.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, with every case of each group.")] = False,
) -> int:
    """List the findings of a campaign, grouped by platform, verdict and culprit, with a case for each.

    Exit status 1 if there are findings.

    Example: mindgap campaign findings out/campaign --word discrepant
    """
    from mindgap.workflows.campaign.results.findings import as_json as groups_as_json
    from mindgap.workflows.campaign.results.findings import findings_of
    from mindgap.workflows.campaign.state.directory import open_directory

    with result_stream() as out:
        groups = findings_of(open_directory(directory), words or (), platform)
        if as_json:
            out.write(groups_as_json(groups) + "\n")
        elif groups:
            _print_groups(groups, directory, out)
        else:
            asked = f" that is {' or '.join(words)}" if words else ""
            out.write(f"NO FINDING{asked} in {directory}{f' on {platform}' if platform else ''}\n")
        return Exit.FINDINGS if groups else Exit.NOTHING_FOUND


def show(
    directory: Directory,
    case: Annotated[str, typer.Argument(metavar="CASE", help="As `campaign findings` calls it: v000042.")],
    platform: Annotated[
        str, typer.Option("-p", "--platform", metavar="PLATFORM", help="Which row (default: the worst of the case).")
    ] = "",
    node: Annotated[
        int | None, typer.Option("--node", metavar="N", help="Run this node alone as well (default: the culprit).")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE.py", help="Write the script here.")
    ] = None,
) -> int:
    """Show the rows of a case, and a stand-alone script that runs it: both sides beside float64, without mindgap.

    The script goes to standard output unless -o names a file; the rows then go to standard error.

    Example: mindgap campaign show out/campaign v000042 -p onnxruntime/cpu -o case.py && python case.py
    """
    from mindgap.workflows.campaign.results.findings import rows_of_case
    from mindgap.workflows.campaign.results.script import script_of
    from mindgap.workflows.campaign.state.directory import open_directory

    check_files(("--output", output), ("--output", None if output is None else output.with_suffix(".npz")))
    with result_stream() as out:
        folder = open_directory(directory)
        rows = rows_of_case(folder, case, platform)
        chosen = min(rows, key=_rank)
        _print_rows(rows, out if output is not None else sys.stderr)
        beside = "" if output is None else f"{output.stem}.npz"
        script = script_of(folder, chosen, node=node, beside=beside)
        if output is None:
            out.write(script.text)
            return Exit.NOTHING_FOUND
        write_file(output, script.text)
        for name, data in script.files.items():
            write_file(output.with_name(name), data)
        written = ", ".join([str(output), *(str(output.with_name(name)) for name in script.files)])
        complain(f"{written}: {case} on {chosen['platform']}; run it with python {output}")
        return Exit.NOTHING_FOUND


def _rank(row: Mapping[str, Any]) -> int:
    """Returns the sort key: findings first, the worst first."""
    from mindgap.results.rows import SEVERITY

    word = str(row["word"])
    return SEVERITY.index(word) if word in SEVERITY else len(SEVERITY)


def _print_groups(groups: Sequence[FindingGroup], directory: Path, out: TextIO) -> None:
    page = console(out)
    columns = ("platform", "verdict", "culprit or signature", "rows", "blame", "for example", "what is said of it")
    table = plain_table(*columns, right=["rows"])
    for group in groups:
        said = " ".join(group.detail.split())[:_LONGEST]
        culprit = group.culprit[:_LONGEST]
        cells = (group.platform, group.word, culprit, f"{group.count:,}", group.blame, group.case, said)
        table.add_row(*(cell.replace("[", r"\[") for cell in cells))
    page.print(table)
    page.print(
        f"{sum(group.count for group in groups):,} findings in {len(groups):,} groups; a script for one: "
        f"mindgap campaign show {directory} {groups[0].case} -p {groups[0].platform}",
        highlight=False, markup=False,
    )  # fmt: skip


def _print_rows(rows: Sequence[Mapping[str, Any]], out: TextIO) -> None:
    page = console(out)
    table = plain_table("case", "platform", "verdict", "culprit", "blame", "max abs", "what is said of it")
    for row in rows:
        culprit = f"{row['culprit_op']} (node {row['culprit_node']})" if row["culprit_op"] else ""
        figure = "" if row["max_abs"] is None else f"{row['max_abs']:.4g}"
        said = " ".join((row["detail"] or row["message"] or "").split())[:_LONGEST]
        cells = (row["model"], row["platform"], row["word"], culprit, row["blame"] or "", figure, said)
        table.add_row(*(cell.replace("[", r"\[") for cell in cells))
    page.print(table)
