"""The two doors of this room: a source's text to programs, and to captured graphs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from mindgap.capture import CaptureError, Optimizer, capture
from mindgap.capture.capture import UnprovenCapture
from mindgap.capture.replay_check import Verify
from mindgap.corpus.program import Built, Captured, Program
from mindgap.corpus.source import SourceError, parse
from mindgap.graph import Graph, MindgapError
from mindgap.graph.tensors import TensorStore


@dataclass(frozen=True, slots=True)
class CaptureFailure:
    """A program that was opened and could not become a graph; `reason` is one line."""

    name: str
    reason: str


def open_source(text: str) -> list[Program | Captured]:
    """The programs that a source names, not built yet; at least one.

    A user's callable is called here, since only it knows how many models it returns. Raises
    `SourceError` for a source that names nothing.
    """
    source = parse(text)
    return [*source.kind.open(source)]


def capture_source(
    text: str,
    tensors: TensorStore | None = None,
    weights: Literal["stored", "seeded", "auto"] = "auto",
    verify: Verify = True,
    backward: bool = False,
    optimizer: Optimizer | None = None,
) -> Iterator[tuple[str, Graph | CaptureFailure]]:
    """(name, graph or failure) for each model that a source names, one at a time.

    `weights`: "auto" gives zoo models and records back the recipes that their weights were drawn
    from, bit for bit, and stores the bytes of a user's; "stored" keeps bytes in `tensors` for
    all; "seeded" replaces a user's weights by seeded ones of like statistics. `backward`, `optimizer`:
    the gradients too, or a training step (see `capture_kernels`). Raises `SourceError`
    for a source that names nothing; a model that cannot be built or captured is a failure in the
    stream where the source names several, and an exception where it names one.
    """
    opened = open_source(text)
    for one in opened:
        try:
            if isinstance(one, Captured):
                yield one.name, captured_graph(one, backward or optimizer is not None)
            else:
                yield one.name, capture_program(one, tensors, weights, verify, backward, optimizer)
        except (SourceError, CaptureError) as error:
            yield one.name, CaptureFailure(one.name, str(error))


def capture_program(
    program: Program,
    tensors: TensorStore | None = None,
    weights: Literal["stored", "seeded", "auto"] = "auto",
    verify: Verify = True,
    backward: bool = False,
    optimizer: Optimizer | None = None,
) -> Graph:
    """Build one program and capture it. Raises `SourceError` or `CaptureError`; see `capture_source`."""
    return capture_built(program.make(), tensors, weights, verify, backward, optimizer)


def capture_built(
    built: Built,
    tensors: TensorStore | None = None,
    weights: Literal["stored", "seeded", "auto"] = "auto",
    verify: Verify = True,
    backward: bool = False,
    optimizer: Optimizer | None = None,
) -> Graph:
    """The same for a program that is built. Raises `CaptureError`. The program is left as it was."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Zoo code warns of its own deprecations; a user has no part in them.
            warnings.simplefilter("default", UnprovenCapture)
            return _captured(built, tensors, weights, verify, backward, optimizer)
    except CaptureError:
        raise
    except MindgapError as error:
        raise CaptureError(str(error)) from error


def captured_graph(one: Captured, backward: bool) -> Graph:
    """The graph as it is. Raises `SourceError` where a backward pass is asked of it, which takes the program."""
    if backward:
        raise SourceError(f"{one.source}: it is a graph already; a backward pass is captured from the program itself")
    return one.graph


def _captured(
    built: Built, tensors: TensorStore | None, weights: str, verify: Verify, backward: bool, optimizer: Optimizer | None
) -> Graph:
    kept = built.registry.store() if weights == "auto" and built.registry else None
    seeded = weights == "seeded" or built.registry.describes
    graph = capture(
        built.program, built.args, built.kwargs, tensors=tensors if kept is None else kept,
        weights="seeded" if seeded else "stored", verify=verify, backward=backward, optimizer=optimizer,
    )  # fmt: skip
    # First, since a memory store's keys must not leave this function.
    graph = graph if kept is None else built.registry.restore(graph, kept, tensors)
    return built.registry.described(graph) if built.registry.describes else graph
