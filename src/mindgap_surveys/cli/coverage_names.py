"""Runs the names of PyTorch's sample database on platforms, for `mindgap coverage --names`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mindgap.cli.progress import counting
from mindgap.platforms.name import PlatformName
from mindgap_surveys.report.study_page import Section, StudyPage
from mindgap_surveys.table import made

if TYPE_CHECKING:
    from mindgap_surveys.support.sample_names import NameRun

    Names = Mapping[PlatformName, list[NameRun]]


def names_object(runs: Names) -> list[dict[str, Any]]:
    return [{"platform": platform, "names": [asdict(each) for each in names]} for platform, names in runs.items()]


def names_page(runs: Names) -> StudyPage:
    """Lays out how many names each platform runs, and why others are not run."""
    rows: list[tuple[str | int, ...]] = []
    for platform, names in runs.items():
        graph, program, left = ([each.how for each in names].count(how) for how in ("graph", "program", "not run"))
        rows.append((platform, len(names), graph + program, graph, program, left))
    columns = ("platform", "names", "run", "as a graph", "as a program only", "not run")
    sections = [Section("counts", "Names", (made("", "", columns, rows),))]
    for platform, names in runs.items():
        if others := [(each.name, each.how, each.reason) for each in names if each.how != "graph"]:
            table = made("", "", ("name", "how", "why no graph ran"), others)
            sections.append(Section(platform, f"on {platform}", (table,)))
    return StudyPage("Names of PyTorch's sample database", (), tuple(sections))


def run_names(platforms: Sequence[PlatformName]) -> Names:
    from tempfile import TemporaryDirectory

    from mindgap.graph import TensorStore
    from mindgap.run.pool import WorkerPool
    from mindgap_surveys.support.sample_names import named_samples, run_names as run_samples

    with TemporaryDirectory() as folder, counting() as tick:
        tensors = TensorStore(folder)
        samples = list(named_samples(tensors, on_progress=tick))
        with WorkerPool(platforms, tensors=tensors) as pool:
            return {platform: run_samples(samples, platform, pool.run, tick) for platform in dict.fromkeys(platforms)}
