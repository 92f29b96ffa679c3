"""Turns SOURCE arguments into subjects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mindgap.diff import Subject
from mindgap.graph import Graph, MindgapError, TensorStore

if TYPE_CHECKING:
    from mindgap.corpus import Captured, Program


def with_options(source: str, options: Sequence[str]) -> str:
    """Adds `OPTION=VALUE` pairs to a source; options in the source itself win. Raises `MindgapError`."""
    for option in options:
        name, equals, _ = option.partition("=")
        if not (name and equals):
            raise MindgapError(f"--set {option}: write OPTION=VALUE, as in --set size=64")
        if f"?{name}=" in source or f"&{name}=" in source:
            continue
        source += ("&" if "?" in source else "?") + option
    return source


def subjects(
    sources: Sequence[str], options: Sequence[str], tensors: TensorStore, backward: bool = False
) -> list[Subject]:
    """Makes a subject per model of the sources. `backward`: with gradients, and `+grad` in its name.

    Raises `MindgapError` for a source that names nothing.
    """
    from mindgap.corpus import open_source

    opened = [one for source in sources for one in open_source(with_options(source, options))]
    suffix = " +grad" if backward else ""
    return [Subject(one.name + suffix, _graph_of(one, tensors, backward)) for one in opened]


def _graph_of(one: Program | Captured, tensors: TensorStore, backward: bool) -> Callable[[], Graph]:
    def graph() -> Graph:
        from mindgap.corpus import Captured, capture_program, captured_graph

        if isinstance(one, Captured):
            return captured_graph(one, backward)
        return capture_program(one, tensors, backward=backward)

    return graph
