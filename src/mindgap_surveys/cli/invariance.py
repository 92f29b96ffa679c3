"""Implements `mindgap invariance`, which asks whether an answer depends on its company."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import numpy as np
import typer

from mindgap.cli.diff import AsJson, Deadline, Html, Junit, Options, seconds
from mindgap.cli.numbers import positive, whole_numbers
from mindgap.cli.progress import counting
from mindgap.cli.sources import CaptureEnv, only_program, source_client, with_options
from mindgap.cli.streams import complain, result_stream
from mindgap.graph import Graph, MindgapError, default_tensor_store
from mindgap.platforms.name import PlatformName
from mindgap.platforms.registry import canonical
from mindgap.results.settings import DEADLINE_S
from mindgap.source_worker.client import GeneratedText, OpenedSource, SourceClient
from mindgap_surveys.cli.answer_outputs import AnswerFiles, StoreOption
from mindgap_surveys.cli.endpoint import EndpointOptions, ask_server, is_endpoint
from mindgap_surveys.cli.invariance_rows import answer_rows, more_tables
from mindgap_surveys.report.answer_page import answer_page

if TYPE_CHECKING:
    from mindgap_surveys.decoding.invariance import Invariance

_LEAD: Final = (
    "The same example in different company, on one platform. Equal bits are identical; other bits are judged by the "
    "oracle of the graph of one example."
)
#: Parameters of the command that only a server, only the load on it, or only a model takes.
_OF_SERVERS: Final = (
    "model", "prompts", "max_tokens", "requests", "in_flight", "max_requests", "chat", "stream", "timeout",
    "key_variable", "against",
)  # fmt: skip
_OF_LOAD: Final = ("requests", "in_flight", "max_requests", "stream", "require_identical")
_OF_MODELS: Final = (
    "batches", "threads", "lengths", "decoding", "kernels", "options", "capture_env", "deadline",
)  # fmt: skip


def invariance(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE|URL", help="As for mindgap diff, one model; or a server, http://HOST:PORT/v1."),
    ],
    platforms: Annotated[
        list[str] | None,
        typer.Option("-p", "--platform", metavar="PLATFORM", help="A platform; may be given several times."),
    ] = None,
    batches: Annotated[str, typer.Option(metavar="1,2,4", help="Numbers of examples in a batch.")] = "1,2,3,4,8,16",
    threads: Annotated[
        str, typer.Option(metavar="1,2", help="Also on so many threads, where the platform has the option.")
    ] = "",
    lengths: Annotated[
        str, typer.Option(metavar="8,16,32", help="Of a causal model: the first 8 tokens alone, and in longer texts.")
    ] = "",
    decoding: Annotated[
        str,
        typer.Option(
            metavar="8,16",
            help="Of a causal model of transformers: a prompt of 8 tokens and 16 after it, by padding, chunks, caches.",
        ),
    ] = "",
    kernels: Annotated[
        bool, typer.Option("--kernels", help="Also a table: which batch sizes share bits, by operator and shape.")
    ] = False,
    require_identical: Annotated[
        bool, typer.Option("--require-identical", help="Exit with status 1 for any other bits, rounding included.")
    ] = False,
    options: Options = None,
    capture_env: CaptureEnv = None,
    as_json: AsJson = False,
    html: Html = None,
    junit: Junit = None,
    store: StoreOption = None,
    deadline: Deadline = DEADLINE_S,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of a server: its model (default: the only).")
    ] = None,
    prompts: Annotated[
        list[str] | None, typer.Option("--prompt", metavar="TEXT", help="Of a server: what is asked; may repeat.")
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Of a server: tokens of a completion.")] = 32,
    requests: Annotated[int, typer.Option(min=1, help="Of a server: times that a prompt is sent, alone and not.")] = 10,
    in_flight: Annotated[int, typer.Option(min=2, max=256, help="Of a server: requests at once, under load.")] = 8,
    max_requests: Annotated[int, typer.Option(min=1, help="Of a server: requests in all.")] = 500,
    chat: Annotated[bool, typer.Option("--chat", help="Of a server: ask /chat/completions.")] = False,
    stream: Annotated[bool, typer.Option("--stream", help="Of a server: ask for a stream of events.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Of a server: for one completion.")] = 60.0,
    key_variable: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of a server: the environment variable that holds its key.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="hub:FOLDER", help="Of a server: compare its log-probabilities with this local model's."),
    ] = None,
) -> int:
    """Ask whether the answer to one example depends on its company: batch size, position, neighbours, threads, process.

    Other bits are judged: rounding, or beyond it. The operators that choose another kernel for another batch are named,
    with the sizes at which they do. Exit status: 1 where an answer is beyond rounding, 2 where something did not run.

    Examples: mindgap invariance timm:resnet18 -p cpu/eager -p onnxruntime/cpu
    | mindgap invariance http://localhost:8000/v1 --prompt 'Once upon a time'
    | mindgap invariance http://localhost:8000/v1 --against hub:FOLDER
    """
    files = AnswerFiles(html, junit, store, as_json)
    if is_endpoint(source):
        if platforms:
            raise MindgapError(f"-p {platforms[0]}: a server is a platform itself: leave out -p")
        if given := _given(context, _OF_MODELS):
            raise MindgapError(f"{given}: a server takes none of these options of models: {source}")
        if against is not None and (given := _given(context, _OF_LOAD)):
            raise MindgapError(f"{given}: not with --against, which asks for each prompt alone: {source}")
        served = EndpointOptions(
            model, prompts or [], max_tokens, requests, in_flight, max_requests, chat, stream,
            positive("--timeout", timeout), key_variable, against,
        )  # fmt: skip
        return ask_server(source, served, files, require_identical)
    if given := _given(context, _OF_SERVERS):
        raise MindgapError(f"{given}: only a server (http://HOST:PORT/v1) takes such options, not a model: {source}")
    if not platforms:
        raise MindgapError(f"{source}: name a platform, as in -p cpu/eager")
    # Imported late: other commands need no PyTorch.
    from mindgap_surveys.decoding.decoding import Decoding
    from mindgap_surveys.decoding.invariance import ask

    sizes = sorted(whole_numbers("--batches", batches))
    counts = whole_numbers("--threads", threads) if threads else []
    if not any(size > 1 for size in sizes):
        raise MindgapError(f"--batches {batches}: give a size above 1, as in --batches 1,2,4")
    tokens = sorted(whole_numbers("--lengths", lengths)) if lengths else []
    if tokens and (len(tokens) < 2 or any(each % tokens[0] for each in tokens)):
        raise MindgapError(f"--lengths {lengths}: give multiples of the smallest, as in --lengths 8,16,32")
    text = whole_numbers("--decoding", decoding, repeated=True) if decoding else []
    if decoding and (len(text) != 2 or min(text) < 2):
        raise MindgapError(f"--decoding {decoding}: give tokens of the prompt and after it, as in --decoding 8,16")
    deadline_s, tensors = seconds(deadline), default_tensor_store()
    named = {platform: canonical(platform) for platform in platforms}
    files.check()
    answers: list[Invariance] = []
    with result_stream() as out:
        with source_client(tensors, deadline_s, capture_env) as client, counting() as tick:
            requested = with_options(source, options or [])
            _refuse_sizes(requested, bool(tokens))
            graph_of = _graph_of(client, requested, "examples", sorted({1, *sizes}))
            text_of = _graph_of(client, requested, "tokens", tokens)
            decoded = None
            if text:
                call_of = _graph_of(client, requested, "decoding")
                decoded = Decoding(call_of, *text, tensors=tensors, deadline_s=deadline_s)
            for place, platform in enumerate(named):
                tick(place, len(named), platform)
                notes: list[str] = []
                texts: Sequence[GeneratedText] = _texts(client, requested, text, platform, notes) if text else ()
                try:
                    one = ask(
                        graph_of, platform, model=source, batches=sizes, threads=counts,
                        text_of=text_of if tokens else None, lengths=tokens, kernels=kernels, decoding=decoded,
                        texts=texts, tensors=tensors, deadline_s=deadline_s, notes=notes,
                    )  # fmt: skip
                except MindgapError as error:
                    if len(named) == 1:
                        raise
                    complain(f"{platform}: {error}")
                    one = _not_run(source, named[platform], str(error), notes)
                answers.append(one)
        rows = [*answer_rows(answers, require_identical)]
        page = answer_page(source, _LEAD, rows, [*more_tables(answers)], [n for one in answers for n in one.notes])
        settings = {"platforms": [str(one.platform) for one in answers], "decoding": decoding, "batches": batches}
        return files.write("invariance", page, rows, {"results": answers}, out, settings)


def _given(context: typer.Context, names: Sequence[str]) -> str:
    """The options of those parameters that stand on the command line."""
    sources = ((context.get_parameter_source(each.name or ""), each) for each in context.command.params)
    given = (each for where, each in sources if where is not None and where.name == "COMMANDLINE")
    return ", ".join(each.opts[0] for each in given if each.name in names)


def _not_run(model: str, platform: PlatformName, why: str, notes: Sequence[str]) -> Invariance:
    """What is known of a platform that does not run the model: others have run or will run."""
    from mindgap_surveys.decoding.answer_judge import Answer, Condition
    from mindgap_surveys.decoding.invariance import Invariance

    return Invariance(
        model, platform, (Answer(Condition("repeat", "again"), "not_run", detail=why),), notes=tuple(notes)
    )


def _texts(
    client: SourceClient, source: str, text: Sequence[int], platform: str, notes: list[str]
) -> Sequence[GeneratedText]:
    """What `generate` gives on a platform on which it runs."""
    if platform not in ("cpu/eager", "cpu/inductor"):
        notes.append("generate of transformers runs on cpu/eager and cpu/inductor only, without options")
        return []
    try:
        return client.generate(source, *text, compiled=platform == "cpu/inductor")
    except MindgapError as error:
        nothing = np.zeros(0)
        return [GeneratedText("alone", nothing, nothing, str(error))]


def _refuse_sizes(source: str, lengths: bool) -> None:
    """Raises `MindgapError` for a source that sets what the command itself tries several values of."""
    options = {each.partition("=")[0]: each for each in source.partition("?")[2].split("&")}
    for name, option in (("examples", "--batches"), *([("tokens", "--lengths")] if lengths else [])):
        if name in options:
            raise MindgapError(f"{source}: {options[name]} is what {option} sets: leave it out of the source")


def _graph_of(client: SourceClient, source: str, option: str, sizes: Sequence[int] = ()) -> Callable[..., Graph]:
    """Captures the model at a size, or for a call of several sizes, once for all platforms. `sizes`: those that will be
    requested; they are opened together, so that one process captures them all."""
    graphs: dict[tuple[int, ...], Graph] = {}
    opened: dict[tuple[int, ...], OpenedSource] = {}
    refused: dict[tuple[int, ...], MindgapError] = {}

    def open_(size: tuple[int, ...]) -> None:
        if not (size in opened or size in graphs or size in refused):
            try:
                sized = with_options(source, [f"{option}={','.join(map(str, size))}"])
                opened[size] = only_program(client, sized, source)
            except MindgapError as error:
                refused[size] = error

    def captured(*size: int) -> Graph:
        for each in (size, *((one,) for one in sizes)):
            open_(each)
        if size in opened:
            try:
                graphs[size] = client.capture(opened.pop(size), 0)
            except MindgapError as error:
                refused[size] = error
        if size in refused:
            raise refused[size]
        return graphs[size]

    return captured
