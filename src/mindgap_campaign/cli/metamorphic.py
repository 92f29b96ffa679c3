"""Implements `mindgap metamorphic`, which compares a platform with itself on rewritten graphs."""

from __future__ import annotations

from typing import Annotated

import typer

from mindgap.cli.diff import AsJson, Deadline, Html, Jobs, Junit, Metrics, Options, put_out, report_problems, seconds
from mindgap.cli.outputs import check_files
from mindgap.cli.sources import CaptureEnv, OnlyPlatform, source_client, subjects
from mindgap.cli.streams import result_stream, status_of
from mindgap.graph import default_tensor_store
from mindgap.platforms.name import parse
from mindgap.results.settings import DEADLINE_S
from mindgap.workflows.diff import RunSettings
from mindgap_campaign.metamorphic import metamorphic as run_metamorphic


def metamorphic(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE…", help="As for mindgap diff.")],
    platforms: OnlyPlatform,
    reference: Annotated[
        str, typer.Option(metavar="PLATFORM", help="What judges where the platform is not consistent.")
    ] = "cpu/eager",
    options: Options = None,
    capture_env: CaptureEnv = None,
    backward: Annotated[bool, typer.Option("--backward", help="As for mindgap diff.")] = False,
    seed: Annotated[int, typer.Option(help="Another seed writes the graph in other ways.")] = 0,
    as_json: AsJson = False,
    metrics: Metrics = False,
    html: Html = None,
    junit: Junit = None,
    deadline: Deadline = DEADLINE_S,
    jobs: Jobs = None,
) -> int:
    """Test a platform against itself. Each graph also runs in other forms that must give the same: nodes reordered,
    computed twice, identities inserted, an input with another layout, the batch reversed or split.

    Where the bits are equal nothing more runs. Where they are not, the reference judges.

    Example: mindgap metamorphic timm:resnet18 -p onnxruntime/cpu
    """
    check_files(("--html", html), ("--junit", junit))
    settings = RunSettings(parse(reference), deadline_s=seconds(deadline))
    with result_stream() as out:
        tensors = default_tensor_store()
        with source_client(tensors, settings.deadline_s, capture_env) as client:
            programs = subjects(sources, options or [], client, backward)
            report = run_metamorphic(programs, platforms[0], settings=settings, tensors=tensors, seed=seed, jobs=jobs)
        status = put_out(report, out, as_json, html, junit, metrics=metrics)
    report_problems(report)
    return status or status_of(report)
