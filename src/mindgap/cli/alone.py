"""`mindgap alone`: a platform held against itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mindgap.cli.diff import say_loudly, write_pages
from mindgap.cli.sources import subjects
from mindgap.cli.status import status_of
from mindgap.cli.streams import result_stream
from mindgap.cli.tables import print_report
from mindgap.diff import Settings
from mindgap.diff.alone import alone as hold
from mindgap.graph import MindgapError, default_tensor_store


def alone(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE…", help="As for mindgap diff.")],
    platform: Annotated[str, typer.Option("-p", "--platform", metavar="PLATFORM", help="The platform.")],
    reference: Annotated[
        str, typer.Option(metavar="PLATFORM", help="What judges where the platform is not consistent.")
    ] = "cpu/eager",
    options: Annotated[
        list[str] | None, typer.Option("--set", metavar="OPTION=VALUE", help="Of the sources: size=64, batch=2, …")
    ] = None,
    backward: Annotated[bool, typer.Option("--backward", help="As for mindgap diff.")] = False,
    seed: Annotated[int, typer.Option(help="Another seed writes the graph in other ways.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="The report as JSON on standard output.")] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the self-contained page.")] = None,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write JUnit XML.")] = None,
    deadline: Annotated[float, typer.Option(metavar="SECONDS", help="For one graph on one platform.")] = 300.0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Workers that work at once (default: one per core).")] = None,
) -> int:
    """Hold a platform against itself: each graph is also run as it could have been written instead, in another order,
    twice, with identities put in, an input laid out otherwise, the batch turned or split.

    Where the bits are the same nothing more is asked; where they are not, the reference judges.

    Example: mindgap alone timm:resnet18 -p onnxruntime/cpu
    """
    if deadline <= 0:
        raise MindgapError(f"--deadline {deadline:g}: it takes seconds, more than 0")
    with result_stream() as out:
        tensors = default_tensor_store()
        found = subjects(sources, options or [], tensors, backward)
        settings = Settings(reference, deadline_s=deadline)
        report = hold(found, platform, settings=settings, tensors=tensors, seed=seed, jobs=jobs)
        write_pages(report, html, junit)
        if as_json:
            out.write(report.to_json() + "\n")
        else:
            print_report(report, out)
    say_loudly(report)
    return status_of(report, require_support=False)
