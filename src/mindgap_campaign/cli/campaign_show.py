"""Implements `mindgap campaign findings` and `mindgap campaign show`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from mindgap.cli.outputs import check_files, write_file
from mindgap.cli.streams import Exit, complain, result_stream
from mindgap.cli.tables import console, cut, plain_table
from mindgap.graph.model_file import SUFFIX

if TYPE_CHECKING:
    from mindgap_campaign.campaign.results.findings import FindingGroup

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The directory of the campaign.")]


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
    from mindgap_campaign.campaign.results.findings import as_json as groups_as_json, findings_of
    from mindgap_campaign.campaign.state.directory import open_directory

    with result_stream() as out:
        groups = findings_of(open_directory(directory), words or (), platform)
        if as_json:
            out.write(groups_as_json(groups) + "\n")
        elif groups:
            _print_groups(groups, directory, out)
        else:
            kinds = f" that is {' or '.join(words)}" if words else ""
            out.write(f"NO FINDING{kinds} in {directory}{f' on {platform}' if platform else ''}\n")
        return Exit.FINDINGS if groups else Exit.NOTHING_FOUND


def show(
    directory: Directory,
    case: Annotated[str, typer.Argument(metavar="CASE", help="As `campaign findings` calls it: v000042.")],
    platform: Annotated[
        str, typer.Option("-p", "--platform", metavar="PLATFORM", help="Which row (default: the worst of the case).")
    ] = "",
    node: Annotated[
        int | None, typer.Option("--node", metavar="N", help="Only this node, on the operands that it had.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE.mindgap", help="Write the case here (default: CASE.mindgap)."),
    ] = None,
) -> int:
    """Show the rows of a case, and write it as a model file that `mindgap diff` runs; print that command.

    A short script that shows the finding without mindgap is written beside the file, FILE.py, where one can be made:
    it is run twice first.

    Example: mindgap campaign show out/campaign v000042 -p onnxruntime/cpu -o case.mindgap
    """
    from mindgap.findings.reduction.model_file import diff_command, write_case
    from mindgap.graph import default_tensor_store
    from mindgap_campaign.campaign.results.case_file import command_of, graph_of, node_alone, script_of
    from mindgap_campaign.campaign.results.findings import rows_of_case
    from mindgap_campaign.campaign.state.directory import open_directory

    base = output or Path(re.sub(r"[^\w.-]+", "_", case))
    stem = base.name.removesuffix(SUFFIX).removesuffix(".py")
    file, script = base.with_name(stem + SUFFIX), base.with_name(f"{stem}.py")
    check_files(("--output", file), ("--output", script))
    folder = open_directory(directory)
    rows = rows_of_case(folder, case, platform)
    chosen = min(rows, key=_rank)
    with result_stream() as out:
        _print_rows(rows, out)
        tensors = default_tensor_store()
        graph = graph_of(folder, chosen)
        graph = graph if node is None else node_alone(graph, node, tensors)
        write_case(file, case, graph, tensors)
        out.write(diff_command(str(file), command_of(folder, chosen)) + "\n")
        out.flush()
        made = script_of(folder, chosen, graph, tensors)
        if made.text:
            write_file(script, made.text)
            out.write(f"python {script}\n")
        else:
            complain(f"no short script of {case} on {chosen['platform']}: {made.reason}")
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
        culprit, detail = cut(group.culprit), cut(group.detail)
        cells = (group.platform, group.word, culprit, f"{group.count:,}", group.blame, group.case, detail)
        table.add_row(*(cell.replace("[", r"\[") for cell in cells))
    page.print(table)
    kinds = "1 group" if len(groups) == 1 else f"{len(groups):,} groups"
    out.write(
        f"{sum(group.count for group in groups):,} findings in {kinds}; to run one:\n"
        f"  mindgap campaign show {directory} {groups[0].case} -p {groups[0].platform}\n"
    )


def _print_rows(rows: Sequence[Mapping[str, Any]], out: TextIO) -> None:
    page = console(out)
    table = plain_table("case", "platform", "verdict", "culprit", "blame", "max abs", "what is said of it")
    for row in rows:
        culprit = f"{row['culprit_op']} (node {row['culprit_node']})" if row["culprit_op"] else ""
        figure = "" if row["max_abs"] is None else f"{row['max_abs']:.4g}"
        text = cut(row["detail"] or row["message"] or "")
        cells = (row["model"], row["platform"], row["word"], culprit, row["blame"] or "", figure, text)
        table.add_row(*(cell.replace("[", r"\[") for cell in cells))
    page.print(table)
