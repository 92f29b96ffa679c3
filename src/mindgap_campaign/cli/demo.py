"""Implements `mindgap demo`: a program whose export is wrong, real models, and a small campaign."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TextIO

import typer

from mindgap.cli.diff import Jobs, report_problems, write_pages
from mindgap.cli.outputs import check_directory, make_directory, write_file
from mindgap.cli.progress import progress
from mindgap.cli.sources import subjects
from mindgap.cli.streams import Exit, complain, result_stream
from mindgap.cli.tables import print_report
from mindgap.graph import default_tensor_store
from mindgap.own_path.client import OwnPathClient
from mindgap.results.store import Store
from mindgap.source_worker.client import SourceClient
from mindgap.workflows.diff import RunSettings, diff_many
from mindgap_campaign.cli.campaign import begin_or_resume
from mindgap_campaign.cli.campaign_reduce import reduce

if TYPE_CHECKING:
    from mindgap.workflows.diff import Report

#: Unlike in make, in instruction set, in precision and in how much of the graph each compiles.
PLATFORMS: Final = ("cpu/eager@isa=avx2", "cpu/jit", "onnxruntime/cpu", "openvino/cpu", "cpu/inductor")
#: The campaign's plan. A seed that is fixed: everybody with these versions on such a processor finds the same.
_PLAN: Final = """\
# The campaign of `mindgap demo`. docs/campaigns/README.md lists all keys.
seed = 1
catalogue = "{catalogue}"
skip_unavailable = true

[variants]
count = 80
sizes = [ {{ nodes = 8, share = 1.0 }} ]

[platforms]
"cpu/jit" = {{}}
"onnxruntime/cpu@threads=1" = {{}}
"openvino/cpu@precision=f32,threads=1" = {{}}

[limits]
coverage_minutes = 0
"""
#: How long a capture, or a model on one platform, may take.
_DEADLINE_S: Final = 240.0
#: Groups of findings that are reduced: three bugs in hand, and one to spare.
_GROUPS: Final = 4
#: How long the reduction of one finding may take.
_REDUCTION_S: Final = 30.0
#: Causes that are printed in full.
_SHOWN: Final = 3


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIRECTORY", help="Where results go.")] = Path(
        "out/demo"
    ),
    jobs: Jobs = None,
) -> int:
    """Run a program whose export is wrong and real models on every platform here; then find bugs with a small campaign.

    Findings are the point of it, so the exit status is 0 when it ran.

    Example: mindgap demo -o out/demo
    """
    check_directory("--output", output)
    started = time.monotonic()
    with result_stream() as out:
        report = _models(output, jobs, out)
        findings = _campaign(output, jobs or 2)
    folder = output / "findings"
    if findings:
        complain(f"3 of 3: {findings} findings; the worst are reduced to scripts that run without mindgap")
        reduce(
            output / "campaign", folder, seconds=_REDUCTION_S, most=_GROUPS, no_condition=True, jobs=jobs or 2,
        )  # fmt: skip
    else:
        complain("the campaign found nothing on the platforms here: there is nothing to reduce")
    with result_stream() as out:
        if findings:
            _print_causes(folder, out)
        page = (output / "models.html").resolve()
        out.write(f"{time.monotonic() - started:.0f} s. The models: {page}\n")
    report_problems(report)
    if report.totals.broken:
        return Exit.TOOL_FAILED
    return Exit.WRONG_USE if report.nothing else Exit.NOTHING_FOUND


def _models(output: Path, jobs: int | None, out: TextIO) -> Report:
    """Compares the platforms on a program and on real models; prints the table and writes the page.

    The program goes the way of the platforms' users too; the models, which take longer to export, do not.
    """
    from mindgap_campaign.demo import DEMO_MODELS, DEMO_PROGRAM

    make_directory(output)
    program = output / DEMO_PROGRAM.name
    write_file(program, DEMO_PROGRAM.read_bytes())
    complain(f"1 of 3: {program}, a program whose export is wrong, and {len(DEMO_MODELS)} real models")
    tensors = default_tensor_store()
    with (
        progress(lines=True) as tell,
        SourceClient(tensors, _DEADLINE_S) as client,
        OwnPathClient(_DEADLINE_S) as exporting,
    ):
        report = diff_many(
            [*subjects([f"{program}:make"], [], client, own_path=exporting), *subjects(DEMO_MODELS, [], client)],
            PLATFORMS,
            settings=RunSettings(deadline_s=_DEADLINE_S),
            progress=tell,
            tensors=tensors,
            jobs=jobs,
            skip_unavailable=True,
            store=Store(output / "store"),
        )
    write_pages(report, output / "models.html", None)
    write_file(output / "models.json", report.to_json())
    print_report(report, out)
    out.flush()
    return report


def _campaign(output: Path, jobs: int) -> int:
    """Runs variants of operator samples on the runtimes. Returns the number of findings."""
    from mindgap_campaign.catalogue import Catalogue, build
    from mindgap_campaign.demo import DEMO_OPERATORS

    complain("2 of 3: a campaign: variants of PyTorch's samples of pooling, padding, normalisation and others")
    catalogue = Catalogue(output / "catalogue", create=True)
    build(catalogue, DEMO_OPERATORS, jobs=jobs)
    plan = output / "campaign.toml"
    write_file(plan, _PLAN.format(catalogue=catalogue.path))
    return begin_or_resume(plan, output / "campaign", jobs).totals.findings


def _print_causes(folder: Path, out: TextIO) -> None:
    """The worst causes that a script shows, with the command that runs it."""
    from mindgap.findings.causes import FILE_NAME, read_causes

    causes = read_causes(folder / FILE_NAME)
    verified = [cause for cause in causes if cause.verified]
    for number, cause in enumerate(verified[:_SHOWN], 1):
        shown = cause.findings[0]
        script = shlex.quote(str(folder / shown.script))
        run = f"cd {shlex.quote(str(folder))} && {shown.command}" if shown.command else f"python {script}"
        out.write(f"\n{number}. {cause.title}\n   {cause.severity}: {cause.severity_reason}\n   {run}\n")
    out.write(f"\n{len(causes)} causes, {len(verified)} shown again: {folder / 'index.html'}\n")
