"""Prints how many names of PyTorch's sample database each platform runs (`mindgap coverage --names`)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, TextIO

from rich.text import Text

from mindgap.cli.progress import counting
from mindgap.cli.tables import console, cut, plain_table
from mindgap.platforms.name import PlatformName

if TYPE_CHECKING:
    from mindgap_surveys.support.sample_names import NameRun


def print_names(platforms: Sequence[PlatformName], as_json: bool, out: TextIO) -> None:
    """Runs a sample of each name on each platform that is available, and prints what came of it."""
    name_runs = _run(platforms)
    if as_json:
        json.dump(
            [{"platform": platform, "names": [asdict(each) for each in runs]} for platform, runs in name_runs.items()],
            out, indent=1,
        )  # fmt: skip
        out.write("\n")
        return
    page = console(out)
    table = plain_table("platform", "names", "run", "as a graph", "as a program only", "not run")
    for platform, runs in name_runs.items():
        how = [each.how for each in runs]
        counts = [how.count(each) for each in ("graph", "program", "not run")]
        table.add_row(platform, str(len(runs)), str(counts[0] + counts[1]), *map(str, counts))
    page.print(table)
    for platform, runs in name_runs.items():
        left = [each for each in runs if each.how != "graph"]
        if not left:
            continue
        table = plain_table("name", "how", "why no graph ran", title=f"on {platform}")
        for each in left:
            table.add_row(each.name, each.how, Text(cut(each.reason)))
        page.print(table)


def _run(platforms: Sequence[PlatformName]) -> dict[PlatformName, list[NameRun]]:
    from tempfile import TemporaryDirectory

    from mindgap.graph import TensorStore
    from mindgap.run.pool import WorkerPool
    from mindgap_surveys.support.sample_names import named_samples, run_names

    with TemporaryDirectory() as folder, counting() as tick:
        tensors = TensorStore(folder)
        samples = list(named_samples(tensors, on_progress=tick))
        with WorkerPool(platforms, tensors=tensors) as pool:
            return {platform: run_names(samples, platform, pool.run, tick) for platform in dict.fromkeys(platforms)}
