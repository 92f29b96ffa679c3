"""`mindgap study task` as a user runs it."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import numpy as np
import pytest

from cli.command_line import mindgap
from mindgap.cli import main
from mindgap_studies.report.task_page import task_page
from mindgap_studies.results.predictions import ComparedForm, Flip, NearTie, Prediction, TaskResult, Truth
from mindgap_surveys.cli.study_text import print_page

MODEL = """
import torch

def make():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3, bias=False)).eval()
    torch.nn.init.eye_(model[0].weight)
    return model, (torch.zeros(1, 3),)

def other():
    model, args = make()
    with torch.no_grad():
        model[0].weight[2, 1] = 3.0
    return model, args
"""


@pytest.mark.nightly
def test_json_page_tables_and_status(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    labels = np.arange(12) % 3
    np.savez(tmp_path / "data.npz", x=np.eye(3, dtype=np.float32)[labels], labels=labels)
    arguments = ["study", "task", "model.py:make", "data.npz", "-p", "cpu/jit", "--form", "other=model.py:other"]
    arguments += ["--batch", "4", "--json", "--html", "page.html", "--csv", "csv", "--max-flips"]
    ran = mindgap(*arguments, "0", cwd=tmp_path)
    assert ran.status == 1 and "other on cpu/jit: 4 flips, and 0 are allowed" in ran.err
    data = json.loads(ran.out)
    assert [row["flips"] for row in data["columns"]] == [0, 0, 4, 4]
    assert {file.stem for file in (tmp_path / "csv").iterdir()} == {"columns", "danger", "flips"}
    assert "other form" in (tmp_path / "page.html").read_text()
    assert mindgap(*arguments, "4", cwd=tmp_path).status == 0


def test_text_groups_platforms_with_the_same_flips() -> None:
    columns = tuple(ComparedForm(form, name) for form in ("", "int8") for name in ("cpu/eager", "onnxruntime/cpu"))
    found = TaskResult("m", "d", "classification", ("cat", "dog"), columns)
    found.truths = {0: Truth(0, (0,)), 1: Truth(1, (1,))}
    for column in columns:
        label = 1 if column.form else 0
        found.predictions[column] = {n: Prediction(n, (label, 1 - label), 0.5, 0.75, 0.3) for n in (0, 1)}
    found.flips = [Flip(c.name, n, 0, n, 0, 1, "other form", origin="head") for c in columns[2:] for n in (0, 1)]
    found.near_ties = [NearTie("", 1, 0, 1, 0.001, 0.002)]
    print_page(task_page(found), out := io.StringIO())
    lines = [re.split(r" {2,}", line.strip()) for line in out.getvalue().splitlines()]
    on, origin = "int8 on cpu/eager, onnxruntime/cpu", "head"
    assert ["0", "cat became dog (right: cat)", "other form", "–", "–", on, origin] in lines
    assert ["1", "cat became dog (right: dog)", "other form", "–", "–", on, origin] in lines
    assert ["the model", "1", "1", "1", "0.001", "0.002"] in lines
    figures = next(line for line in lines if line[0] == "int8 on cpu/eager")
    assert "50.00 % (9.5–90.5)" in figures and "2 other form" in figures


def test_a_sample_that_is_not_a_number_costs_itself_alone(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    labels = np.arange(6) % 3
    x = np.eye(3, dtype=np.float32)[labels]
    x[4, 1] = np.nan
    np.savez(tmp_path / "data.npz", x=x, labels=labels)
    ran = mindgap("study", "task", "model.py:make", "data.npz", "-p", "cpu/jit", "--batch", "2", cwd=tmp_path)
    assert ran.status == 2 and "5 samples, 1 left out" in ran.out and "0.00 %" in ran.out
    assert ran.err.splitlines()[-1] == (
        "mindgap: sample 4 is left out: the reference's outputs are not finite (NaN or infinities)"
    )


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--form", "int8"], "--form int8: write NAME=SOURCE"),
        (["--form", "a=b.py:c", "--form", "a=d.py:e"], "--form a=d.py:e: write NAME=SOURCE with a name of its own"),
        (["--std", "0"], "--std 0: it divides"),
        (["--classes", "cat"], "--classes cat: give a file with a class a line"),
        (["--mean", "a,b"], "--mean a,b: give numbers separated by commas"),
        (["--html", "absent/page.html"], "there is no directory absent"),
    ],
)
def test_bad_options_are_refused_before_anything_runs(options, says, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "task", "model.py:make", "data.npz", "-p", "cpu/jit", *options]) == 2
    assert says in capfd.readouterr().err
