"""Runs a task study from Python: forms of a model, platforms, a dataset."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from mindgap.graph import MindgapError, TensorStore, default_tensor_store, digest
from mindgap.own_path.client import OwnPathClient
from mindgap.own_path.user_program import UserProgram
from mindgap.platforms.name import PlatformName
from mindgap.platforms.registry import canonical
from mindgap.results.store import Store
from mindgap.run.pool import WorkerPool
from mindgap.workflows.diff.platform_facts import facts_of
from mindgap_studies.results.predictions import ComparedForm, TaskResult
from mindgap_studies.task_runs.columns import ModelForm
from mindgap_studies.task_runs.dataset_client import DatasetClient
from mindgap_studies.task_runs.flips import FlipSearch
from mindgap_studies.task_runs.images import Pixels
from mindgap_studies.task_runs.running import Progress, TaskRun, TaskSettings
from mindgap_studies.task_runs.task_store import TaskStore, versions_of


def run_task(
    forms: Sequence[ModelForm], platforms: Sequence[str], dataset: str, *, model: str = "model",
    reference: str = "cpu/eager", settings: TaskSettings | None = None, pixels: Pixels | None = None,
    store: Store | None = None, tensors: TensorStore | None = None, tell: Progress = lambda done, total, text: None,
    classes: Sequence[str] = (),
) -> TaskResult:  # fmt: skip
    """Runs every form on every platform over a dataset, and looks into the samples whose answer is another.

    `forms`: the model itself, named "", first. `store`: keeps predictions; a run that was cut goes on from there.
    `classes`: the model's, in its order, by which the names of a dataset's folders get their labels.
    Raises `MindgapError` where a platform is not available, `platforms` names the reference alone, the dataset cannot
    be opened, the outputs do not answer the task, or the reference does not run.
    """
    settings, pixels, tensors = settings or TaskSettings(), pixels or Pixels(), tensors or default_tensor_store()
    if not forms or forms[0].name or len({form.name for form in forms}) < len(forms):
        raise MindgapError("the first form is the model itself, named '', and each other has a name of its own")
    named = list(dict.fromkeys(canonical(name) for name in (reference, *platforms)))
    if platforms and len(forms) * len(named) < 2:
        raise MindgapError(
            f"nothing to compare: {named[0]} is the reference; give another platform, another --reference, or a --form"
        )
    facts_of(named, reference=named[0], skip_unavailable=False)
    with (
        OwnPathClient(settings.deadline_s) as files,
        DatasetClient(dataset, forms[0].input_forms(), pixels, settings.deadline_s, classes) as reader,
        WorkerPool(named, tensors=tensors) as pool,
    ):
        columns = _columns(forms, named, files)
        kept = TaskStore(store, _name(forms, reader, pixels, str(named[0])), columns)
        kept.begin({
            "model": model, "dataset": dataset, "task": reader.facts.task, "reference": str(named[0]),
            "classes": list(reader.facts.classes), "settings": json.dumps(dataclasses.asdict(settings)),
        })  # fmt: skip
        by_name = {form.name: form for form in forms}
        run = TaskRun(by_name, columns, reader, pool, files, kept, settings, tell, model)
        result = run.run()
        if reader.facts.images:
            result.note(pixels.words)
        FlipSearch(run, result, tensors).search()
        kept.end(result.flips, result.near_ties, result.seconds)
    return result


def _columns(forms: Sequence[ModelForm], platforms: Sequence[PlatformName], files: OwnPathClient) -> list[ComparedForm]:
    """The reference's column is the first. A form that is a file runs as it is where the platform reads it."""
    return [
        ComparedForm(form.name, str(name), Path(form.source.partition("?")[0]).name if as_file else "graph")
        for form in forms
        for name in platforms
        for as_file in (bool(form.name) and UserProgram(files, form.source).reads(name),)
    ]


def _name(forms: Sequence[ModelForm], reader: DatasetClient, pixels: Pixels, reference: str) -> str:
    """Names the run by what decides the predictions: the graphs, the dataset as it is now, the pixels, the reference.

    The reference's versions count for all columns, whose deviations are from its outputs.
    """
    parts = (
        [(form.name, digest(form.graph)) for form in forms], reader.dataset, dataset_state(reader.dataset),
        reader.facts, pixels, reference, versions_of(reference),
    )  # fmt: skip
    return f"task-{hashlib.sha256(repr(parts).encode()).hexdigest()[:16]}"


def dataset_state(dataset: str) -> str:
    """Returns a digest of name, size and time of change of the files of a dataset; of a callable, of its script's."""
    scheme, _, rest = dataset.partition(":")
    if scheme == "torchvision":
        roots = [option.partition("=")[2] for option in rest.partition("?")[2].split("&") if option.startswith("root=")]
    elif scheme == "hf":
        roots = [rest]
    else:
        roots = [dataset if Path(dataset).exists() else dataset.rpartition(":")[0]]
    state = hashlib.sha256()
    for file in (each for root in roots if root for each in _files(Path(root))):
        facts = file.stat()
        state.update(f"{file} {facts.st_size} {facts.st_mtime_ns}\n".encode(errors="surrogateescape"))
    return state.hexdigest()


def _files(root: Path) -> list[Path]:
    """The files of a folder and below it in order, or the file itself."""
    if root.is_file():
        return [root]
    files = [Path(folder, name) for folder, _, names in os.walk(root, followlinks=True) for name in names]
    return sorted(file for file in files if file.is_file())
