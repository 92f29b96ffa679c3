"""Implements `mindgap diff`, which runs models on platforms and compares them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, TextIO

import typer

from mindgap.cli.numbers import budget_left, positive
from mindgap.cli.outputs import check_directory, check_files, each_alone, put_known, write_file
from mindgap.cli.overlay import with_graphs_kept, write_overlay
from mindgap.cli.progress import progress
from mindgap.cli.sources import (
    CaptureEnv,
    IgnoredOutputs,
    Inside,
    OutputMask,
    Steps,
    TakenPath,
    Text,
    capture_options,
    float_model_of,
    output_options,
    source_client,
    subjects,
)  # fmt: skip
from mindgap.cli.streams import Exit, complain, complain_refused, result_stream, status_of
from mindgap.cli.tables import print_report
from mindgap.findings.allowed import all_allowed, mark_allowed
from mindgap.findings.known import load_known, mark_known
from mindgap.graph import Graph, MindgapError, default_tensor_store
from mindgap.own_path.client import OwnPathClient
from mindgap.own_path.runners import check_file
from mindgap.own_path.sizes import parse_sizes
from mindgap.own_path.user_program import UserProgram
from mindgap.platforms.name import PlatformName
from mindgap.platforms.registry import canonical
from mindgap.report.junit import Decision, fails_if_not_finite, no_decision
from mindgap.report.words import not_finite
from mindgap.results.reason_words import sentence
from mindgap.results.run_record import opened_store
from mindgap.results.settings import DEADLINE_S, OWN_PATH, REPEAT
from mindgap.run.log_setup import is_verbose
from mindgap.workflows.diff import DiffInterrupted, Report, RunSettings, StoreNotWritten, Subject, diff_many

#: Options that other commands of this kind take too.
Metrics = Annotated[bool, typer.Option("--metrics", help="Also print the metrics of each row (docs/metrics.md).")]
Options = Annotated[
    list[str] | None, typer.Option("--set", metavar="OPTION=VALUE", help="Of the sources: size=64, batch=2, …")
]
AsJson = Annotated[bool, typer.Option("--json", help="The report as JSON on standard output.")]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write the self-contained page.")]
Junit = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write JUnit XML.")]
Sarif = Annotated[Path | None, typer.Option(metavar="FILE", help="Also write SARIF 2.1.0.")]
Deadline = Annotated[
    float,
    typer.Option(metavar="SECONDS", help="For one graph on one platform, for opening a source, and for a capture."),
]
Jobs = Annotated[int | None, typer.Option(min=1, help="Workers that work at once (default: one per core).")]


def diff(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="SOURCE…", help="FILE.py:callable, package.module:callable, timm:NAME, graph:FILE, …"),
    ],
    platforms: Annotated[
        list[str], typer.Option("-p", "--platform", metavar="PLATFORM", help="DEVICE/MODE[@key=value,…]; may repeat.")
    ],
    reference: Annotated[
        str, typer.Option(metavar="PLATFORM", help="What the others are compared with.")
    ] = "cpu/eager",
    options: Options = None,
    capture_env: CaptureEnv = None,
    inside: Inside = None,
    path_taken: TakenPath = False,
    steps: Steps = None,
    text: Text = None,
    ignored_outputs: IgnoredOutputs = None,
    output_mask: OutputMask = None,
    backward: Annotated[
        bool, typer.Option("--backward", help="Forward and backward: kernels-level graphs with gradients as outputs.")
    ] = False,
    as_json: AsJson = False,
    metrics: Metrics = False,
    html: Html = None,
    junit: Junit = None,
    sarif: Sarif = None,
    overlay: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Also write graphs, and the nodes that a difference reaches, for Model Explorer."
        ),
    ] = None,
    store: Annotated[
        str | None, typer.Option(metavar="DIR", help="Also write what is found into a store, as it is found.")
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Fail on findings that it does not hold: JSON, or a ledger in TOML."),
    ] = None,
    update_baseline: Annotated[bool, typer.Option("--update-baseline", help="Write the findings to it.")] = False,
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="'PLATFORM: WHAT'",
            help="Accept it: 'openvino/cpu: float32 products in bfloat16[, max_relative=0.01]'. Or in pyproject.toml.",
        ),
    ] = None,
    require_support: Annotated[bool, typer.Option("--require-support", help="`unsupported` counts as found.")] = False,
    require_finite: Annotated[
        bool, typer.Option("--require-finite", help="NaN or infinities in an output count as found, on any side.")
    ] = False,
    no_trace: Annotated[bool, typer.Option("--no-trace", help="Do not follow differences from node to node.")] = False,
    no_judge: Annotated[
        bool,
        typer.Option(
            "--no-judge", help="Stop at outputs and digests: whether a difference is more than rounding stays open."
        ),
    ] = False,
    internal: Annotated[
        bool, typer.Option("--internal", help="Judge results that no public function returns like any other.")
    ] = False,
    own_path: Annotated[
        bool,
        typer.Option(
            "--own-path/--no-own-path",
            help="Also take the program itself the way that each platform's users go, and compare.",
        ),
    ] = OWN_PATH,
    artefacts: Annotated[
        list[str] | None,
        typer.Option(
            "--as", metavar="PLATFORM=FILE", help="The file that is deployed there, in place of an export; may repeat."
        ),
    ] = None,
    input_map: Annotated[
        list[str] | None,
        typer.Option(
            "--input-map",
            metavar="ARGUMENT=INPUT",
            help="Which input of the file of --as takes an argument, by name or number; may repeat.",
        ),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--inputs",
            metavar="FILE",
            help="Arguments from a file, .npz or .safetensors, by their names; repeated, one verdict over all files.",
        ),
    ] = None,
    reference_model: Annotated[
        list[str] | None,
        typer.Option(
            "--reference-model",
            metavar="SOURCE",
            help="The model before it was quantised: what quantisation costs is shown beside the verdict. With several "
            "sources: one for each, in their order.",
        ),
    ] = None,
    dynamic: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=LOW..HIGH,…",
            help="Export once with dynamic dimensions, and run several sizes: batch=2..8 (dimension 0 of every tensor "
            "among the arguments), seq=1..128 (dimension 1 of each that has one), ARGUMENT.1=1..64.",
        ),
    ] = None,
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each graph on each platform.")] = REPEAT,
    deadline: Deadline = DEADLINE_S,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="For everything together: 90s, 10m, 1h. What it does not suffice for is not run."
        ),
    ] = None,
    jobs: Jobs = None,
) -> int:
    """Run models on platforms and say where they behave differently, and which operator does it.

    Example: mindgap diff model.py:make -p onnxruntime/cpu -p cpu/inductor --html page.html

    Example: mindgap diff model.py:make -p onnxruntime/cpu --as onnxruntime/cpu=model.onnx
    """
    if update_baseline and baseline is None:
        raise MindgapError("--update-baseline needs --baseline FILE, the file to write")
    limit = None if budget is None else budget_left("--budget", budget)
    known = None if baseline is None else load_known(baseline, create=update_baseline)
    allowed = all_allowed(allow or [], Path.cwd())
    check_files(
        ("--html", html), ("--junit", junit), ("--sarif", sarif),
        ("--baseline", baseline if update_baseline else None),
    )  # fmt: skip
    if overlay is not None:
        check_directory("--overlay", overlay)
    graphs: dict[str, Graph] = {}
    # A store is made for names that are right: no directory is left by a typing error.
    base, *wanted = [canonical(platform) for platform in (reference, *platforms)]
    mapped = _input_map(input_map or [])
    files = _files(artefacts or [], wanted, bool(mapped))
    if mapped and not files:
        raise MindgapError("--input-map needs --as PLATFORM=FILE, the file whose inputs it names")
    sizes = () if dynamic is None else parse_sizes(dynamic)
    left_out = "--backward compares gradients, which an export does not have" if backward else ""
    if (sizes or files) and (left_out or not own_path):
        raise MindgapError("--as and --dynamic need the program's own export: leave out --no-own-path and --backward")
    if files and (ignored_outputs or output_mask):
        raise MindgapError("--as runs a file with all its outputs: leave out --ignore-output and --output-mask")
    if files and len(sources) > 1:
        raise MindgapError("--as takes one source: a file is of one program")
    floats_of = reference_model or []
    if floats_of and backward:
        raise MindgapError("--reference-model measures what quantisation costs: leave --backward out")
    if floats_of and len(floats_of) != len(sources):
        raise MindgapError(
            f"--reference-model is given {len(floats_of)} times for {len(sources)} sources: give one for each, in "
            "their order"
        )
    settings = RunSettings(base, not no_trace, repeat, seconds(deadline), internal, limit, not no_judge)
    kept = None if store is None else opened_store(store)

    def run() -> Report:
        tensors = default_tensor_store()
        with (
            progress() as tell,
            source_client(tensors, settings.deadline_s, capture_env, limit) as client,
            OwnPathClient(settings.deadline_s, files, sizes, limit, mapped, client.where) as exporting,
        ):
            leave_out = (left_out or exporting) if own_path else None
            options_given = [
                *(options or []),
                *capture_options(inside, path_taken, steps, text),
                *output_options(ignored_outputs or [], output_mask),
                *([f"inputs={','.join(inputs)}"] if inputs else []),
            ]
            floats = [float_model_of(each, client) for each in floats_of]
            programs = subjects(sources, options_given, client, backward, leave_out, floats)
            if sizes:
                programs = list(programs)
                _check_sizes(programs, wanted[0])
            if overlay is not None:
                programs = with_graphs_kept(programs, graphs)
            return diff_many(programs, wanted, settings=settings, progress=tell, tensors=tensors, jobs=jobs, store=kept)

    with result_stream() as out:
        report, status = finished(run)
        # What did not run is neither gone nor to be forgotten.
        if known is not None and status != Exit.INTERRUPTED:
            try:
                marked = mark_known(known, report, accept=update_baseline)
                put_known(marked.notes, marked.text, baseline if update_baseline else None)
                report = marked.report
            except MindgapError as error:
                complain(str(error))
                status = Exit.WRONG_USE
        if status != Exit.INTERRUPTED:
            report, notes = mark_allowed(report, allowed)
            for line in notes:
                complain(line)
        fails = fails_if_not_finite if require_finite else no_decision
        status = put_out(report, out, as_json, html, junit, sarif, metrics=metrics, fails=fails) or status
        if overlay is not None:
            status = status if each_alone([partial(write_overlay, report, graphs, overlay)]) else Exit.WRONG_USE
    report_problems(report)
    left = [*_not_fed(report, files), *(_not_sized(report) if sizes else []), *_not_measured(report)]
    for line in left:
        complain(line)
    status = status or (Exit.WRONG_USE if left else status)
    if require_finite:
        for line in not_finite(report):
            complain(line)
    return status or status_of(report, require_support=require_support, require_finite=require_finite)


def _check_sizes(models: Sequence[Subject], platform: PlatformName) -> None:
    """Raises `MindgapError` where no model has a dimension that --dynamic names, before anything is captured."""
    wrong: list[MindgapError] = []
    programs = [each.program for each in models if isinstance(each.program, UserProgram)]
    for program in programs:
        try:
            program.check_sizes(platform)
        except MindgapError as error:
            wrong.append(error)
    if wrong and len(wrong) == len(programs):
        raise wrong[0]


def _input_map(given: Sequence[str]) -> list[tuple[str, str]]:
    """Parses `--input-map ARGUMENT=INPUT`. Raises `MindgapError`."""
    for text in given:
        if not all(text.partition("=")):
            raise MindgapError(f"--input-map {text}: write ARGUMENT=INPUT, as in --input-map x=input_ids")
    return [(name, each) for name, _, each in (text.partition("=") for text in given)]


def _files(artefacts: Sequence[str], platforms: Sequence[PlatformName], mapped: bool) -> dict[PlatformName, Path]:
    """Parses `--as PLATFORM=FILE`. `mapped`: their inputs are named. Raises `MindgapError`."""
    files: dict[PlatformName, Path] = {}
    for text in artefacts:
        platform, equals, file = text.rpartition("=")
        if not (platform and equals and file):
            raise MindgapError(f"--as {text}: write PLATFORM=FILE, as in --as onnxruntime/cpu=model.onnx")
        name = canonical(platform)
        if name not in platforms:
            raise MindgapError(f"--as {text}: {name} is not among the platforms: add -p {name}")
        check_file(name, Path(file), mapped)
        files[name] = Path(file)
    return files


def _not_fed(report: Report, files: Mapping[PlatformName, Path]) -> list[str]:
    """One line for each file of `--as` that was compared with nothing."""
    return [
        f"--as {row.platform}={files[row.platform]}: {row.model}: not compared: {row.own_path.detail}"
        for row in report.rows
        if row.platform in files and row.own_path is not None and row.own_path.status == "not_compared"
    ]


def _not_measured(report: Report) -> list[str]:
    """One line for a model of `--reference-model` that was compared with nothing."""
    costs = [model.quantisation_cost for model in report.models]
    return [f"--reference-model {each.source}: not compared: {each.reason}" for each in costs if each and each.reason]


def _not_sized(report: Report) -> list[str]:
    """One line for each reason why dynamic dimensions were not run."""
    own = [each for row in report.rows if row.own_path is not None for each in row.own_path.reasons]
    return [*dict.fromkeys(sentence(each) for each in own if each.kind == "sizes_not_compared")]


def finished(run: Callable[[], Report]) -> tuple[Report, Exit]:
    """Runs a comparison. Returns its report, and a status other than 0 if it was interrupted or its store failed."""
    try:
        return run(), Exit.NOTHING_FOUND
    except DiffInterrupted as error:
        complain(f"interrupted: what follows is what was known after {error.report.seconds:.0f} s")
        return error.report, Exit.INTERRUPTED
    except StoreNotWritten as error:
        complain(f"the store is incomplete: {error}")
        return error.report, Exit.WRONG_USE


def put_out(
    report: Report, out: TextIO, as_json: bool, html: Path | None, junit: Path | None, sarif: Path | None = None, *,
    metrics: bool = False, fails: Decision = no_decision,
) -> Exit:  # fmt: skip
    """Writes the report: JSON or text, then the requested files. A failure costs its file and gives a status.
    `fails`: of the cases in JUnit XML."""
    if as_json:
        out.write(report.to_json() + "\n")
    else:
        print_report(report, out, metrics=metrics, verbose=is_verbose())
    return Exit.NOTHING_FOUND if write_pages(report, html, junit, sarif, fails) else Exit.WRONG_USE


def seconds(deadline: float) -> float:
    """Parses a deadline. Raises `MindgapError` for an invalid one."""
    return positive("--deadline", deadline)


def write_pages(
    report: Report, html: Path | None, junit: Path | None, sarif: Path | None = None, fails: Decision = no_decision
) -> bool:
    """Writes the requested JUnit, SARIF and HTML files. Returns whether all were written. `fails`: of JUnit's cases."""
    pages = [(sarif, "sarif_of_report"), (html, "html_page")]
    wanted = [partial(_write, path, make, report) for path, make in pages if path is not None]
    if junit is not None:
        wanted.insert(0, partial(_write, junit, "junit_xml", report, fails))
    return each_alone(wanted)


def _write(path: Path, make: str, report: Report, *more: Decision) -> None:
    # A page imports PyTorch, which takes as long as a small comparison.
    write_file(path, getattr(importlib.import_module("mindgap.report"), make)(report, *more))


def report_problems(report: Report) -> None:
    """Prints what was refused, what mindgap failed on and why nothing was compared, on standard error."""
    for refused in report.refused:
        if refused.broken:
            sys.stderr.write(refused.broken)
        complain_refused(refused.source, refused.reason)
    for row in report.rows:
        if row.broken:
            complain(f"not judged, mindgap failed: {row.model} on {row.platform}: {row.broken.splitlines()[-1]}")
    if unknown := sum(row.unknown for row in report.rows):
        complain(f"{unknown} of {len(report.rows)} rows were not run, or differ and were not judged: see their reasons")
    if report.nothing and (report.models or not report.refused):
        complain(f"NOTHING WAS COMPARED: {report.nothing}")
    elif unsupported := report.totals.words.get("unsupported", 0):
        complain(f"{unsupported} of {len(report.rows)} rows are unsupported: nothing is known of them")
