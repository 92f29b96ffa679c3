"""Implements `mindgap study task`: what a platform or a smaller form of a model costs at the model's task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from mindgap.cli.diff import Deadline, Junit, Options, seconds
from mindgap.cli.outputs import check_files, write_file
from mindgap.cli.progress import counting
from mindgap.cli.sources import only_program, source_client, with_options
from mindgap.cli.streams import Exit, complain, result_stream
from mindgap.graph import MindgapError, default_tensor_store
from mindgap.platforms.registry import canonical
from mindgap.results.settings import DEADLINE_S
from mindgap.results.store import Store
from mindgap_studies.results.predictions import TaskResult
from mindgap_surveys.cli.study_text import AsJson, Csv, Html, StudyFiles

#: Problems of samples that are named one by one.
_NAMED: Final = 5


def task(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="As for mindgap diff; it names one model.")],
    dataset: Annotated[
        str,
        typer.Argument(
            metavar="DATASET",
            help="FILE.npz, a folder of images by class, torchvision:NAME?root=DIR, hf:FOLDER, FILE.py:FUNCTION.",
        ),
    ],
    platforms: Annotated[
        list[str], typer.Option("-p", "--platform", metavar="PLATFORM", help="A platform; may be given several times.")
    ],
    forms: Annotated[
        list[str] | None,
        typer.Option("--form", metavar="NAME=SOURCE", help="Another form of the model: int8=FILE.onnx; may repeat."),
    ] = None,
    reference: Annotated[str, typer.Option(metavar="PLATFORM", help="What labels are compared with.")] = "cpu/eager",
    batch: Annotated[
        int, typer.Option(min=0, metavar="N", help="Examples in a batch; 0: as the model returns them.")
    ] = 32,
    samples: Annotated[int | None, typer.Option(min=1, metavar="N", help="At most so many samples.")] = None,
    near: Annotated[
        int, typer.Option(min=0, metavar="N", help="Samples of smallest margin that are compared with rounding.")
    ] = 64,
    origins: Annotated[
        int, typer.Option(min=0, metavar="N", help="Flips of each column whose operator is looked for.")
    ] = 1,
    mean: Annotated[str, typer.Option(metavar="0.5,…", help="Of pixels in 0..1, subtracted, by channel.")] = "",
    std: Annotated[str, typer.Option(metavar="0.5,…", help="Of pixels, divided by, by channel.")] = "",
    classes: Annotated[
        str,
        typer.Option(
            metavar="FILE|A,B,…",
            help="The model's classes in its order, one a line or separated by commas: labels of a folder's folders.",
        ),
    ] = "",
    max_flips: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Exit with status 1 if more samples flip on a platform.")
    ] = None,
    store: Annotated[
        str | None, typer.Option(metavar="DIR", help="Keep predictions there; a run that was cut goes on.")
    ] = None,
    html: Html = None,
    junit: Junit = None,
    csv: Csv = None,
    as_json: AsJson = False,
    options: Options = None,
    deadline: Deadline = DEADLINE_S,
) -> int:
    """Measure what platforms cost at the model's task: error, flipped labels, boxes, perplexity.

    Example: mindgap study task digits.py:make digits.npz -p onnxruntime/cpu --form int8=int8.onnx --html page.html
    """
    from mindgap_studies.report.task_page import task_page
    from mindgap_studies.task.study import answer_rows, task_object, task_tables
    from mindgap_studies.task_runs.api import run_task
    from mindgap_studies.task_runs.columns import ModelForm
    from mindgap_studies.task_runs.images import Pixels
    from mindgap_studies.task_runs.running import TaskSettings

    files = StudyFiles(html, csv, as_json)
    files.check()
    check_files(("--junit", junit))
    for platform in (reference, *platforms):
        canonical(platform)
    pixels = Pixels(_numbers("--mean", mean), _numbers("--std", std))
    if 0 in pixels.std:
        raise MindgapError(f"--std {std}: it divides; give numbers other than 0")
    given = [*(options or []), *([f"examples={batch}"] if batch else [])]
    sources = {name: with_options(each, given) for name, each in {"": model, **_forms(forms or [])}.items()}
    settings = TaskSettings(samples, near, origins, seconds(deadline))
    kept, tensors = None if store is None else Store(store), default_tensor_store()
    named = _classes(classes)
    with result_stream() as out:
        with source_client(tensors, settings.deadline_s, None) as client:
            opened = {name: only_program(client, source) for name, source in sources.items()}
            pixels = replace(pixels, own=client.preprocessing(opened[""], 0))
            graphs = [ModelForm(name, each.source, client.capture(each, 0)) for name, each in opened.items()]
        with counting() as tick:
            result = run_task(
                graphs, platforms, dataset, model=model, reference=reference, settings=settings, pixels=pixels,
                store=kept, tensors=tensors, classes=named,
                tell=lambda done, total, text: tick(done, total or done, text or "samples"),
            )  # fmt: skip
        if junit is not None:
            from mindgap_surveys.report.answer_page import answer_junit

            write_file(junit, answer_junit(answer_rows(result, max_flips)))
        files.write(lambda: task_page(result), task_tables(result), lambda: task_object(result), out)
    return _status(result, max_flips)


def _status(result: TaskResult, max_flips: int | None) -> Exit:
    """Names on standard error what is not passed, and returns the exit status: as the rows of a test report."""
    from mindgap_studies.task.study import answer_rows, dataset_problem, unnamed_classes

    rows = answer_rows(result, max_flips)
    for row in rows:
        if row.question == "task" and row.state != "passed":
            what = row.detail.removeprefix(f"{row.platform}: ")
            complain(f"{'not run: ' if row.state == 'unknown' else ''}{row.platform}: {what}")
    for sample, why in list(result.problems.items())[:_NAMED]:
        complain(f"sample {sample} is left out: {why}")
    if (more := len(result.problems) - _NAMED) > 0:
        complain(f"… and {more} more samples are left out (--json names all)")
    if unnamed := unnamed_classes(result):
        complain(
            f"the reference's label of {unnamed} of {len(result.truths)} samples is none of the dataset's "
            f"{len(result.classes)} classes ({', '.join(result.classes[:3])}…): the errors are of other labels than "
            "the model's; --classes gives the model's classes in its order"
        )
    if wanting := dataset_problem(result):
        complain(wanting)
    states = {row.state for row in rows}
    return Exit.FINDINGS if "found" in states else Exit.WRONG_USE if "unknown" in states else Exit.NOTHING_FOUND


def _classes(given: str) -> tuple[str, ...]:
    """Parses `--classes`. Raises `MindgapError` for a file that cannot be read, and for one name alone."""
    try:
        text = Path(given).read_text(encoding="utf-8") if given and Path(given).is_file() else given.replace(",", "\n")
    except (OSError, ValueError) as error:
        raise MindgapError(f"--classes {given}: it cannot be read: {error}") from None
    names = tuple(name for line in text.splitlines() if (name := line.strip()))
    if given and (len(names) < 2 or len(set(names)) < len(names)):
        raise MindgapError(f"--classes {given}: give a file with a class a line, or two different names or more: A,B")
    return names


def _forms(given: Sequence[str]) -> dict[str, str]:
    forms: dict[str, str] = {}
    for text in given:
        name, _, source = text.partition("=")
        if not (name and source) or name in forms:
            raise MindgapError(f"--form {text}: write NAME=SOURCE with a name of its own, as in --form int8=model.onnx")
        forms[name] = source
    return forms


def _numbers(option: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise MindgapError(f"{option} {text}: give numbers separated by commas, as in 0.485,0.456,0.406") from None
