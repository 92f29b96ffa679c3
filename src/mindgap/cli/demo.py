"""Implements `mindgap demo`, which runs real models on the available platforms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from mindgap.cli.diff import Jobs, say_loudly, write_pages
from mindgap.cli.progress import progress
from mindgap.cli.report import write_file
from mindgap.cli.sources import subjects
from mindgap.cli.status import Exit
from mindgap.cli.streams import result_stream
from mindgap.cli.tables import print_report
from mindgap.diff import RunSettings, diff_many
from mindgap.graph import default_tensor_store
from mindgap.store import Store

#: Unlike in make, in instruction set, in precision and in how much of the graph each compiles.
PLATFORMS: Final = (
    "cpu/eager@isa=avx2",
    "cpu/eager@isa=default",
    "cpu/eager@threads=1,onednn=off",
    "cpu/jit",
    "cpu/inductor",
    "onnxruntime/cpu",
    "onnxruntime/cpu@opt=off",
    "openvino/cpu@precision=f32",
    "openvino/cpu@precision=default",
)


def demo(
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIRECTORY", help="Where results go.")] = Path(
        "out"
    ),
    records: Annotated[
        Path, typer.Option(metavar="FILE.parquet", help="A collection of recorded graphs; left out where it is not.")
    ] = Path("../shared/corpus/graphnet.parquet"),
    jobs: Jobs = None,
) -> int:
    """Run real architectures on every platform at hand, print the matrix and write the page.

    Findings are the point of it, so the exit status is 0 when it ran.

    Example: mindgap demo -o out
    """
    with result_stream() as out:
        from mindgap.corpus.demo import demo_sources

        sources = demo_sources(records)
        tensors = default_tensor_store()
        with progress(lines=True) as tell:
            report = diff_many(
                [*subjects(sources.forward, [], tensors), *subjects(sources.trained, [], tensors, backward=True)],
                PLATFORMS,
                settings=RunSettings(deadline_s=240.0),
                progress=tell,
                tensors=tensors,
                jobs=jobs,
                skip_unavailable=True,
                store=Store(output / "store"),
            )
        page, data = output / "demo.html", output / "demo.json"
        write_pages(report, page, None)
        write_file(data, report.to_json())
        print_report(report, out)
        if sources.left_out:
            out.write(f"{sources.left_out}\n")
        out.write(f"{report.seconds:.0f} s; the page is {page.resolve()}, the data {data.resolve()}\n")
    say_loudly(report)
    if report.totals.broken:
        return Exit.TOOL_FAILED
    return Exit.WRONG_USE if report.nothing else Exit.NOTHING_FOUND
