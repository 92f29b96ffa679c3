"""A task study on a model and a platform whose labels are known, through real workers."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from mindgap.graph import MindgapError
from mindgap.graph_capture import capture
from mindgap.results.store import Store
from mindgap_studies import records
from mindgap_studies.report.task_page import task_page
from mindgap_studies.results.predictions import ComparedForm, Prediction, TaskResult, Truth
from mindgap_studies.task.study import column_facts, task_object, task_tables
from mindgap_studies.task_runs.api import dataset_state, run_task
from mindgap_studies.task_runs.columns import ColumnRunner, ModelForm
from mindgap_studies.task_runs.dataset_client import Examples
from mindgap_studies.task_runs.running import TaskRun, TaskSettings
from mindgap_surveys.report.study_page import study_page

DATA = """
from pathlib import Path
import numpy as np

def samples():
    for n in range(20):
        if n == 10 and Path(__file__).with_name("cut").exists():
            raise OSError("the disk is gone")
        yield np.eye(3, dtype=np.float32)[n % 3], n % 3
"""
#: The first element of a batch of eight is 100 too large: samples 0, 8 and 16 get label 0. Sample 0 has it anyway.
FAULT = """
[[fault]]
kind = "wrong_element"
index = 0
add = 100
when = { op = "aten.linear*" }
"""


def form(name: str, weight: float = 0.0, wrap=lambda model: model) -> ModelForm:
    """A layer that gives class n for the n-th unit vector; with a `weight`, class 2 for the second."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 3, bias=False)).eval()
    with torch.no_grad():
        torch.nn.init.eye_(model[0].weight)
        model[0].weight[2, 1] = weight
        return ModelForm(name, name or "model", capture(wrap(model), (torch.zeros(8, 3),)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("task")
    (folder / "data.py").write_text(DATA)
    (folder / "faults.toml").write_text(FAULT)
    labels = np.arange(20) % 3
    images = np.eye(3, dtype=np.float32)[labels]
    labels[13] = 9
    labels[7] = 2
    np.savez(folder / "data.npz", x=images, labels=labels)
    return folder


@pytest.fixture(scope="module")
def found(folder: Path) -> TaskResult:
    forms = [form(""), form("other", 3.0)]
    platform = f"faulty/eager@faults={folder}/faults.toml"
    return run_task(forms, [platform], str(folder / "data.npz"), store=Store(folder / "store"))


def test_figures_are_those_that_were_made(found: TaskResult) -> None:
    reference, faulty, other, both = (column_facts(found, column) for column in found.columns)
    # 19 samples have a label that the model knows; one of them is labelled wrongly.
    assert (len(found.truths), found.task, reference["top1_error_share"]) == (19, "classification", 1 / 19)
    assert found.problems == {13: "label 9 is out of range: the model has 3 classes"}
    assert (faulty["flips"], faulty["lost"], faulty["gained"], faulty["p"]) == (2, 2, 0, 0.5)
    assert faulty["largest_deviation"] == 100 and faulty["beyond"] == 2
    # The other form gives label 2 for every sample of class 1; sample 7 is right by that.
    assert (other["flips"], other["other_form"], other["gained"]) == (6, 6, 1)
    assert (both["flips"], both["beyond"], both["other_form"]) == (7, 2, 5)


def test_flips_beyond_rounding_name_the_operator(found: TaskResult) -> None:
    flips = [flip for flip in found.flips if flip.column.startswith("faulty")]
    assert [(f.sample, f.before, f.after, f.truth) for f in flips] == [(8, 2, 0, 2), (16, 1, 0, 1)]
    assert all(f.verdict == "beyond" and f.limit < f.margin for f in flips)
    assert flips[0].origin == "aten.linear.default (0)"
    first = next(flip for flip in found.flips if flip.column == "other on cpu/eager")
    assert first.origin == "0" and "0 before, 0.98 there" in first.note
    assert not any(tie.in_danger for tie in found.near_ties) and len(found.near_ties) == 2 * 19


def test_tables_json_and_page_have_the_same_figures(found: TaskResult) -> None:
    columns, danger, flips = task_tables(found)
    data = json.loads(json.dumps(task_object(found)))
    assert data["columns"] == [{k: v for k, v in row.items() if k in data["columns"][0]} for row in records(columns)]
    assert len(data["flips"]) == len(flips.rows) == 15 and [row["examined"] for row in records(danger)] == [19, 19]
    page = study_page(task_page(found))
    assert "5.26 %" in page and "label 9 is out of range" in page
    flipped = page.split('<h2 id="flips">')[1].split("<h2 ")[0]
    shown = {int(sample) for sample in re.findall(r'<tr><td class="n">(\d+)</td>', flipped)}
    assert shown == {flip.sample for flip in found.flips}
    assert "http" not in page.replace("http-equiv", "")


def test_the_store_has_predictions_and_flips(found: TaskResult, folder: Path) -> None:
    store = Store(folder / "store", create=False)
    (run,) = store.rows("SELECT run, seconds, task FROM tasks")
    assert run["seconds"] > 0 and run["task"] == "classification"
    counts = store.rows("SELECT form, platform, count(*) AS n FROM predictions GROUP BY ALL")
    assert {row["n"] for row in counts} == {19} and len(counts) == 4
    (row,) = store.rows("SELECT count(*) AS n FROM flips JOIN tasks USING (run, created) WHERE verdict = 'beyond'")
    assert row["n"] == 4


def test_a_run_that_was_cut_goes_on(folder: Path) -> None:
    store, data = Store(folder / "cut-store"), f"{folder}/data.py:samples"
    (folder / "cut").touch()
    with pytest.raises(MindgapError, match=r"it raised OSError: the disk is gone \(data\.py:8\)"):
        run_task([form("")], [], data, settings=TaskSettings(near=0), store=store)
    (folder / "cut").unlink()
    again = run_task([form("")], [], data, settings=TaskSettings(near=0), store=store)
    assert (len(again.truths), again.taken_over) == (20, 8) and again.reference.name == "cpu/eager"
    assert [*again.predictions[again.reference]] == [*range(20)]


def test_a_model_without_logits_is_refused(folder: Path) -> None:
    labels = form("", wrap=lambda model: torch.nn.Sequential(model, torch.nn.Flatten(0)))
    with pytest.raises(
        MindgapError, match=r"model: the model's outputs are no logits: its first output is float32\[24\]"
    ):
        run_task([labels], [], str(folder / "data.npz"))


def test_the_reference_alone_is_nothing_to_compare(folder: Path) -> None:
    with pytest.raises(MindgapError, match="nothing to compare: cpu/eager is the reference"):
        run_task([form("")], ["cpu/eager"], str(folder / "data.npz"))


@pytest.mark.nightly
def test_a_platform_more_runs_alone_and_another_reference_takes_nothing_over(folder: Path, monkeypatch) -> None:
    store, data, settings = Store(folder / "more-store"), str(folder / "data.npz"), TaskSettings(near=0, samples=8)
    asked: list[str] = []
    real = ColumnRunner.outputs

    def outputs(self: ColumnRunner, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        asked.append(self.column.platform)
        return real(self, inputs)

    monkeypatch.setattr(ColumnRunner, "outputs", outputs)
    threads = "cpu/eager@threads=1"
    run_task([form("")], [threads], data, settings=settings, store=store)
    asked.clear()
    more = run_task([form("")], [threads, "cpu/eager@threads=2"], data, settings=settings, store=store)
    assert asked == ["cpu/eager", "cpu/eager@threads=2"] and all(len(each) == 8 for each in more.predictions.values())
    asked.clear()
    run_task([form("")], ["cpu/eager"], data, reference=threads, settings=settings, store=store)
    assert sorted(asked) == ["cpu/eager", threads]


@pytest.mark.parametrize("dataset", ["{}", "hf:{}", "torchvision:ImageFolder?root={}&train=false", "{}/a/f.py:make"])
def test_a_file_that_changes_makes_another_run(tmp_path: Path, dataset: str) -> None:
    (tmp_path / "a").mkdir()
    file = tmp_path / "a" / "f.py"
    file.write_text("one")
    before = dataset_state(dataset.format(tmp_path))
    assert dataset_state(dataset.format(tmp_path)) == before
    file.write_text("other")
    assert dataset_state(dataset.format(tmp_path)) != before


def batch_of(
    held: tuple[str, ...], known: dict[int, Truth], loss: float = 0.0
) -> tuple[list[str], dict[ComparedForm, int], list[Truth]]:
    """Runs one batch of two samples on three columns, of which the store has `held`.

    Returns which columns ran, how many rows of each were kept, and the truths that were.
    """
    columns = [ComparedForm("", name) for name in ("reference", "old", "new")]
    found = TaskResult("m", "d", "classification", (), tuple(columns))
    found.predictions = {
        c: {n: Prediction(n, (0, 1), loss=loss) for n in (0, 1) if c.platform in held} for c in columns
    }
    ran: list[str] = []
    kept: list[tuple[list[Truth], dict[ComparedForm, list[Prediction]]]] = []

    def runner(name: str) -> SimpleNamespace:
        return SimpleNamespace(outputs=lambda inputs: ran.append(name) or (np.eye(2),))

    truths = (Truth(0, (0,)), Truth(1, (1,)))
    client = SimpleNamespace(read=lambda start, count: Examples(truths, (np.eye(2),), (), True))
    run = TaskRun(
        {"": SimpleNamespace(batch=2)}, columns, client, None, None,
        SimpleNamespace(keep=lambda good, problems, made: kept.append((good, made))), TaskSettings(), None, "m",
    )  # fmt: skip
    run.runner = lambda column: runner(column.platform)
    run._batch(found, 0, 2, known)
    ((good, made),) = kept
    return ran, {column: len(rows) for column, rows in made.items()}, good


def test_columns_that_the_store_has_do_not_run_again_save_the_reference() -> None:
    known = {0: Truth(0, (0,)), 1: Truth(1, (1,))}
    assert batch_of(("reference", "old"), known) == (["reference", "new"], {ComparedForm("", "new"): 2}, [])
    ran, _, good = batch_of((), {})
    assert ran == ["reference", "old", "new"] and good == [*known.values()]
    with pytest.raises(MindgapError, match="sample 1 is another than in the store"):
        batch_of(("reference",), {**known, 1: Truth(1, (0,))})
    with pytest.raises(MindgapError, match="sample 0 is another than in the store"):
        batch_of(("reference",), known, loss=0.5)


def test_a_text_with_labels_missing_is_left_out() -> None:
    run = object.__new__(TaskRun)
    problems: dict[int, str] = {}
    truths = [Truth(0, (1,) * 8), Truth(1, (1,) * 7)]
    good = run._in_range("language", truths, [np.zeros((2, 8, 3))], problems)
    assert good == truths[:1] and problems == {1: "it has 7 labels, and the model 8 positions"}
