"""Opens sources: as programs, or captured as graphs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mindgap.graph import Graph, MindgapError
from mindgap.graph.tensors import TensorStore
from mindgap.graph_capture import CaptureError, Optimizer, capture
from mindgap.graph_capture.errors import CompiledPart, PathTaken, QuantisedPart, ReplayDiffers, WrongDeclaration
from mindgap.graph_capture.program_capture import UnprovenCapture
from mindgap.graph_capture.replay_check import Verify
from mindgap.sources.argument_sets import argument_sets, asked_arguments
from mindgap.sources.cached_decoding import decoding_call, decoding_program
from mindgap.sources.files.user_imports import activate
from mindgap.sources.program import Built, Captured, Program
from mindgap.sources.read_outputs import of_program, selection_option
from mindgap.sources.source import SourceError, parse
from mindgap.sources.steps import StepLoop, steps_option, stepwise, with_tokens
from mindgap.sources.submodules import inside, submodule_of
from mindgap.sources.translated_model import NoTranslation, TranslatedModel, UntranslatedModel
from mindgap.sources.weights.tensor_registry import MemoryStore


@dataclass(frozen=True, slots=True)
class CaptureFailure:
    """A program that was opened and could not be captured; `reason` is one line."""

    name: str
    reason: str


def open_source(text: str) -> list[Program | Captured]:
    """Returns the programs that a source names, not built yet; at least one.

    Calls the user's callable, which alone knows how many models it returns. Raises `SourceError` if the source names
    nothing.
    """
    activate(None)
    whole = parse(text)
    submodule, source = submodule_of(whole)
    arguments, source = asked_arguments(source)
    path_taken, source = source.flag("path_taken"), source.without("path_taken")
    steps, source = steps_option(source)
    selection, source = selection_option(source)
    call, source = decoding_call(source)
    opened: list[Program | Captured] = [*source.kind.open(source)]
    changes = [name for name in whole.options if name not in source.options]
    if not changes:
        return opened
    programs = argument_sets([_program(one, changes) for one in opened], arguments)
    if call is not None:
        programs = [decoding_program(one, call) for one in programs]
    if submodule is not None:
        programs = [inside(one, submodule) for one in programs]
    if steps:
        programs = [stepwise(one, steps) for one in programs]
    if selection is not None:
        programs = [of_program(one, selection) for one in programs]
    return [*map(_along_path, programs)] if path_taken else [*programs]


def _program(one: Program | Captured, changes: Sequence[str]) -> Program:
    """Returns a program that options of a source change. Raises `SourceError` for a graph."""
    if isinstance(one, Captured):
        raise SourceError(f"{one.source}: it is a graph already; {', '.join(changes)} needs the program itself")
    return one


def _along_path(one: Program) -> Program:
    return replace(one, make=lambda: replace(one.make(), path_taken=True), remake=None, make_submodule=None)


def capture_source(
    text: str, tensors: TensorStore | None = None, backward: bool = False
) -> Iterator[tuple[str, Graph | CaptureFailure]]:
    """Yields (name, graph or failure) for each model that a source names.

    The weights of library models and records are the recipes that they were drawn from; the bytes of the user's are
    kept in `tensors`. `backward`: capture gradients (see `capture_kernels`). Raises `SourceError` if the source names
    nothing.
    """
    opened = open_source(text)
    for one in opened:
        try:
            if isinstance(one, Captured):
                yield one.name, captured_graph(one, backward)
            else:
                yield one.name, capture_program(one, tensors, backward=backward)
        except (SourceError, CaptureError) as error:
            yield one.name, CaptureFailure(one.name, str(error))


def capture_program(
    program: Program,
    tensors: TensorStore | None = None,
    verify: Verify = True,
    backward: bool = False,
    optimizer: Optimizer | None = None,
) -> Graph:
    """Builds one program and captures it. Raises `SourceError` or `CaptureError`. Arguments as for
    `capture_built`."""
    return capture_built(program.make(), tensors, verify, backward, optimizer)


def capture_built(
    built: Built,
    tensors: TensorStore | None = None,
    verify: Verify = True,
    backward: bool = False,
    optimizer: Optimizer | None = None,
    seeded: bool = False,
) -> Graph:
    """Captures a program that is built and leaves it as it was. Raises `CaptureError`.

    `backward`, `optimizer`: capture gradients, or a training step (see `capture_kernels`). `seeded`: replace weights
    that were not drawn from recipes by seeded ones with similar statistics.
    """
    if isinstance(built.program, UntranslatedModel):
        raise NoTranslation(built.program.reason, built.program.valid)
    activate(built.imports)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Zoo code warns of its deprecations; a user has no part in them.
            warnings.simplefilter("default", UnprovenCapture)
            for category in (CompiledPart, PathTaken, QuantisedPart, WrongDeclaration):
                warnings.simplefilter("default", category)
            return _captured(built, tensors, verify, backward, optimizer, seeded)
    except CaptureError as error:
        if isinstance(built.program, TranslatedModel) and not isinstance(error, NoTranslation):
            # It has no Python of a user's: a runtime may run what PyTorch cannot.
            unstable = isinstance(error, ReplayDiffers)
            why = f"PyTorch's kernels give output {error.output} otherwise each time" if unstable else str(error)
            raise NoTranslation(why) from error
        raise
    except MindgapError as error:
        raise CaptureError(str(error)) from error


def captured_graph(one: Captured, backward: bool) -> Graph:
    """Returns the graph. Raises `SourceError` if `backward`: only a program can be captured with gradients."""
    if backward:
        raise SourceError(f"{one.source}: it is a graph already; a backward pass is captured from the program itself")
    return one.graph


def _captured(
    built: Built, tensors: TensorStore | None, verify: Verify, backward: bool, optimizer: Optimizer | None, seeded: bool
) -> Graph:
    kept = MemoryStore() if built.registry else None
    seeded = (seeded and kept is None) or built.registry.describes
    graph = capture(
        built.program, built.args, built.kwargs, tensors=tensors if kept is None else kept,
        weights="seeded" if seeded else "stored", verify=verify, backward=backward, optimizer=optimizer,
        path_taken=built.path_taken,
    )  # fmt: skip
    # First, since a memory store's keys must not leave this function.
    graph = graph if kept is None else built.registry.restore(graph, kept, tensors)
    if built.registry.describes:
        return built.registry.described(graph)
    return with_tokens(graph, tensors) if isinstance(built.program, StepLoop) else graph
