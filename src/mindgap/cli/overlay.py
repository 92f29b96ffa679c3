"""Keeps the graphs of a comparison, and writes them with what it found for Model Explorer (`--overlay DIR`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from mindgap.cli.outputs import make_directory, write_file
from mindgap.graph import Graph
from mindgap.workflows.diff import Report, Subject


def with_graphs_kept(models: Iterable[Subject], graphs: dict[str, Graph]) -> Iterator[Subject]:
    """Yields the models, and puts the first graph of each into `graphs` once it is captured."""
    for model in models:

        def graph(model: Subject = model) -> Graph:
            made = model.graph()
            graphs.setdefault(model.group or model.name, made)
            return made

        yield replace(model, graph=graph)


def write_overlay(report: Report, graphs: Mapping[str, Graph], folder: Path) -> None:
    """Writes the files of a report into a folder. Raises `MindgapError` if that fails."""
    from mindgap.report.overlay import overlay_files

    make_directory(folder)
    for name, text in overlay_files(report, graphs).items():
        write_file(folder / name, text)
