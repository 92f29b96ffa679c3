"""Turns SOURCE arguments into subjects."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated
from urllib.parse import quote

import typer

from mindgap.cli.stored_graphs import is_stored, stored_subjects
from mindgap.graph import Graph, MindgapError, TensorStore
from mindgap.own_path.client import OwnPathClient
from mindgap.own_path.own_program import LeftOut
from mindgap.own_path.user_program import UserProgram
from mindgap.platforms.environments import find
from mindgap.source_worker.client import OpenedSource, SourceClient
from mindgap.workflows.diff import Subject
from mindgap.workflows.diff.subject import FloatModel

#: The option of commands that take a submodule of a source.
Inside = Annotated[
    str | None,
    typer.Option("--inside", metavar="PATH", help="Only a submodule, on the arguments it gets: layers.3.mlp."),
]


#: The option of commands that capture programs along the path that values decide.
TakenPath = Annotated[
    bool,
    typer.Option(
        "--path-taken",
        help="Where values decide (if x.sum() > 0, x[x > 0]), capture the path that the arguments take.",
    ),
]


#: The option of commands that run a model with a cache for several steps.
Steps = Annotated[
    int | None,
    typer.Option("--steps", metavar="N", help="Run a model that takes tokens and a cache N times (docs/corpus.md)."),
]


#: The option of commands that take the text of a language model.
Text = Annotated[
    str | None,
    typer.Option("--text", metavar="TEXT", help="What hub:FOLDER is given, by the tokenizer in its folder."),
]


def _only(given: list[str] | None) -> list[str]:
    if given is not None and len(given) > 1:
        raise MindgapError(f"this command takes one platform, and {len(given)} are given: {', '.join(given)}")
    return given or []


#: The option of commands that take one platform: a list of one, as a second would replace the first without a word.
OnlyPlatform = Annotated[
    list[str], typer.Option("-p", "--platform", metavar="PLATFORM", help="DEVICE/MODE[@key=value,…].", callback=_only)
]

#: The options of commands that leave out outputs that no caller reads.
IgnoredOutputs = Annotated[
    list[str] | None,
    typer.Option("--ignore-output", metavar="NAME", help="Leave an output out, by its name or place; may repeat."),
]
OutputMask = Annotated[
    str | None,
    typer.Option(
        "--output-mask",
        metavar="ARGUMENT",
        help="Leave out the places of outputs where a mask among the arguments is 0; ~ARGUMENT: where it is 1.",
    ),
]


#: The option of commands that open sources.
CaptureEnv = Annotated[
    str | None,
    typer.Option(
        "--capture-env",
        metavar="ENV",
        help="Open and capture the sources in this environment (mindgap env): with its PyTorch and its packages.",
    ),
]


def source_client(
    tensors: TensorStore, deadline_s: float, capture_env: str | None, budget_s: float | None = None
) -> SourceClient:
    """Returns the client that opens the sources of a command. Raises `EnvironmentProblem`."""
    where = None if capture_env is None else find(capture_env)
    return SourceClient(tensors, deadline_s, budget_s, where)


def capture_options(inside: str | None, path_taken: bool, steps: int | None, text: str | None = None) -> list[str]:
    """Returns the source options of `--inside PATH`, `--path-taken`, `--steps N` and `--text TEXT`."""
    quoted = None if text is None else quote(text, safe=" ")
    options = {"inside": inside, "path_taken": "1" if path_taken else None, "steps": steps, "text": quoted}
    return [f"{name}={value}" for name, value in options.items() if value is not None]


def output_options(ignored: Sequence[str], mask: str | None) -> list[str]:
    """Returns the source options of `--ignore-output NAME` and `--output-mask ARGUMENT`."""
    left_out = [f"ignore_output={','.join(ignored)}"] if ignored else []
    return [*left_out, *([] if mask is None else [f"output_mask={mask}"])]


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
    sources: Sequence[str], options: Sequence[str], client: SourceClient, backward: bool = False,
    own_path: OwnPathClient | str | None = None, float_models: Sequence[FloatModel] = (),
) -> Iterator[Subject]:  # fmt: skip
    """Yields a subject per model of the sources. `backward`: with gradients, and `+grad` in its name.

    `own_path`: runs programs by the way of platforms' users; a text leaves that out, and is the reason in each row;
    None leaves it out. `float_models`: of each source the model before it was quantised; empty where that is
    not requested.
    A source that cannot be opened is one subject, whose graph raises the reason. Raises `MindgapError` for an option
    that is none.
    """
    suffix = " +grad" if backward else ""
    more = " --backward" if backward else ""
    if client.where is not None:
        more += f" --capture-env {client.where.name}"
    for position, source in enumerate(with_options(source, options) for source in sources):
        if is_stored(source):
            yield from _stored(source, client, backward)
            continue
        try:
            opened = client.open(source)
        except (MindgapError, RuntimeError) as error:
            yield Subject(source, _raising(error), in_process=False)
        else:
            for index, one in enumerate(opened.programs):
                graph = _graph_of(client, opened, index, backward)
                program = LeftOut(own_path) if isinstance(own_path, str) else None
                if isinstance(own_path, OwnPathClient):
                    program = UserProgram(own_path, one.source, one.first)
                program = None if one.captured else program
                command = shlex.quote(one.source) + more
                yield Subject(
                    one.name + suffix, graph, command, in_process=False, stop=client.stop, program=program,
                    group=one.group and one.group + suffix, weights=partial(client.build, opened, index),
                    float_model=float_models[position] if float_models else None,
                )  # fmt: skip


def only_program(client: SourceClient, source: str, named: str = "") -> OpenedSource:
    """Opens a source of one program. Raises `MindgapError` for another one, which it calls `named` if that is given."""
    opened = client.open(source)
    if len(opened.programs) != 1:
        raise MindgapError(
            f"{named or source} names {len(opened.programs)} models or sets of arguments: name one "
            f"({opened.programs[0].source.partition('?')[0]}, arguments=1)"
        )
    return opened


def float_model_of(source: str, client: SourceClient) -> FloatModel:
    """Opens the source of `--reference-model`. Raises `MindgapError` if it is not one program."""
    opened = client.open(source)
    if len(opened.programs) != 1:
        raise MindgapError(f"--reference-model {source}: it has {len(opened.programs)} models: name one")
    return FloatModel(source, _graph_of(client, opened, 0, False))


def _stored(source: str, client: SourceClient, backward: bool) -> Iterator[Subject]:
    try:
        if backward:
            raise MindgapError(f"{source}: its graphs are captured already: name a pass, as in ?pass=backward")
        yield from stored_subjects(source, client.tensors)
    except MindgapError as error:
        yield Subject(source, _raising(error), in_process=False)


def _graph_of(client: SourceClient, opened: OpenedSource, index: int, backward: bool) -> Callable[[], Graph]:
    return lambda: client.capture(opened, index, backward=backward)


def _raising(error: Exception) -> Callable[[], Graph]:
    def graph() -> Graph:
        raise error

    return graph
