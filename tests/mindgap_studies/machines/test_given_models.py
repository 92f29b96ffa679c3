"""`mindgap study deviations --collect FILE SOURCE… -p PLATFORM…` on a user's model, really run."""

from __future__ import annotations

import csv
import itertools
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch

from mindgap.cli import main
from mindgap.graph import TensorStore
from mindgap.graph_capture import capture
from mindgap.run.pool import WorkerPool
from mindgap_studies import records
from mindgap_studies.deviations.own import own_study
from mindgap_studies.equivalence.prefix_digests import dendrogram, shared_bits
from mindgap_studies.machines.collected_file import read
from mindgap_studies.machines.collecting import collect
from mindgap_studies.machines.merging import read_and_merge
from mindgap_studies.machines.observing import observe
from mindgap_studies.machines.settings import given_settings
from mindgap_studies.machines.subjects import given_model

EAGER, OFF, ORT = "cpu/eager@threads=1", "cpu/eager@onednn=off,threads=1", "onnxruntime/cpu@threads=1"
MODEL = """
import torch

class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3)
        self.norm = torch.nn.BatchNorm2d(8)
        self.act = torch.nn.ReLU(inplace=True)
        self.head = torch.nn.Linear(8, 5)

    def forward(self, x):
        return self.head(self.act(self.norm(self.conv(x))).mean((2, 3)))

def make():
    torch.manual_seed(0)
    return Small().eval(), (torch.randn(2, 3, 12, 12),)

def refused():
    return lambda x: x if x.sum() > 0 else -x, (torch.ones(3),)
"""


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "small.py"
    path.write_text(MODEL)
    return path


@pytest.fixture(scope="module")
def given_path(model_file, tmp_path_factory):
    path = tmp_path_factory.mktemp("given") / "my.json.zst"
    platforms = [part for each in (EAGER, OFF, ORT, "cuda/eager") for part in ("-p", each)]
    arguments = ["--collect", str(path), f"{model_file}:make", *platforms, "--samples", "2"]
    assert main(["study", "deviations", *arguments]) == 0
    return path


@pytest.mark.nightly
def test_what_ran_and_what_is_not_there_is_in_the_file(given_path):
    found = read(given_path)
    assert list(found.settings) == [EAGER, OFF, ORT, "cuda/eager"]
    assert [each.name for each in found.subjects] == ["small:make/0", "small:make/1"]
    assert {(o.platform, o.status) for o in found.observations} == {(each, "ok") for each in (EAGER, OFF, ORT)}
    assert found.settings[ORT]["versions"]["onnxruntime"] and found.settings[EAGER]["versions"]["torch"]
    assert "/" not in found.subjects[0].name.removesuffix("/0")
    if not torch.cuda.is_available():
        assert re.search("CUDA|NVIDIA", found.settings["cuda/eager"]["unavailable"])


@pytest.mark.nightly
def test_inner_values_of_a_compiled_platform_are_those_of_runs_with_its_own_outputs(tmp_path):
    store = TensorStore(tmp_path)
    module = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 9), torch.nn.Softmax(-1))
    torch.manual_seed(1)
    graph = capture(module.eval(), (torch.randn(4, 64),), tensors=store)
    (each,) = given_model("m", graph, 1, store)
    numbers = {value.number for value in each.subject.values}
    seen = {}
    for platform in (EAGER, ORT):
        with WorkerPool([platform], tensors=store, busy=1) as pool:
            seen[platform] = observe(each, platform, pool.run, 12)
            blind = observe(each, platform, pool.run, 0)
        if platform == ORT:
            assert blind.hidden.startswith("outputs only: 3 were not tried")
            assert set(blind.arrays) == {value.number for value in each.subject.values if value.output}
    assert set(seen[EAGER].arrays) == numbers and not seen[EAGER].hidden
    shown = set(seen[ORT].arrays)
    assert bool(seen[ORT].hidden) == (shown != numbers)
    for number in shown:
        np.testing.assert_allclose(seen[ORT].arrays[number], seen[EAGER].arrays[number], rtol=1e-4, atol=1e-5)


@pytest.mark.nightly
def test_remaining_precision_is_that_of_the_outputs(given_path, model_file, tmp_path):
    store = TensorStore(tmp_path)
    from mindgap.cli.sources import source_client, subjects

    with source_client(store, 300, None) as client:
        (subject,) = subjects([f"{model_file}:make"], [], client)
        runnables = list(given_model(subject.name, subject.captured(), 2, store))
    merged = read_and_merge([given_path])
    for each in runnables:
        column = merged.columns[each.subject.name]
        assert column.subject.digest == each.subject.digest
        (value,) = (value for value in each.subject.values if value.output)
        arrays = []
        for where in column.platforms:
            with WorkerPool([where.platform], tensors=store, busy=1) as pool:
                arrays.append(observe(each, where.platform, pool.run, 0).arrays[value.number])
        for i, j in itertools.combinations(range(3), 2):
            given = column.output(value.number)
            assert shared_bits(given[i], given[j]) == dendrogram([arrays[i], arrays[j]]).minimum


@pytest.mark.nightly
def test_a_file_of_the_study_and_one_of_a_model_merge(given_path, collected_path):
    merged = read_and_merge([collected_path, given_path])
    assert {"tiny/0", "small:make/0"} <= set(merged.columns)
    rows = records(own_study(merged).table("own_classes"))
    assert {row["model"] for row in rows} == {"tiny", "small:make"}


def test_tables_figures_and_page(given_path, tmp_path: Path, capfd: pytest.CaptureFixture[str]):
    page = tmp_path / "page.html"
    assert main(["study", "deviations", str(given_path), "--out", str(tmp_path / "out"), "--html", str(page)]) == 0
    out, err = capfd.readouterr()
    assert "small:make/0" in out and not err
    with (tmp_path / "out" / "own_figure_5.csv").open(newline="") as file:
        layers = list(csv.DictReader(file))
    assert [row["kind"] for row in layers][:3] == ["convolution", "normalisation", "activation"]
    assert layers[-1]["platforms_that_show_it"] == "3"
    with (tmp_path / "out" / "own_table_sup8.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["samples"] == "2" and row["platforms"] in ("2", "3")
    drawn = {path.stem for path in (tmp_path / "out").glob("*.svg")}
    assert drawn == {
        "own_classes", "own_dendrogram-small-make-sample-0", "own_dendrogram-small-make-sample-1",
        "own_figure_5-small-make",
    }  # fmt: skip
    for path in (tmp_path / "out").glob("*.svg"):
        assert ElementTree.fromstring(path.read_text()).tag.endswith("svg")
    text = page.read_text(encoding="utf-8")
    assert ORT in text and "What activations do" in text
    if not torch.cuda.is_available():
        assert "Not available on its machine" in text


@pytest.mark.nightly
def test_a_source_that_cannot_be_captured_is_named_and_the_others_run(
    model_file, tmp_path: Path, capfd: pytest.CaptureFixture[str]
):
    path = tmp_path / "x"
    sources = [f"{model_file}:refused", f"{model_file}:make"]
    assert main(["study", "deviations", "--collect", str(path), *sources, "-p", EAGER]) == 2
    out, err = capfd.readouterr()
    assert "refused: " in err and "small:refused" in err and "1 subjects on 1 platforms" in out
    assert [each.name for each in read(path).subjects] == ["small:make/0"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("MODEL:make", "-p", "cpu/nothing"), "cpu/nothing"),
        (("MODEL:make", "-p", "cpu/eager@env=absent"), "absent"),
        (("MODEL:make", "-p", "cpu/eager@isa=mmx"), "isa"),
        (("MODEL:make", "-p", "cpu/eager", "--set", "size"), "--set size: write OPTION=VALUE"),
        (("-p", "cpu/eager", "--samples", "2"), "--samples and --set are for models of your own"),
        (("MODEL:make", "-p", "cpu/eager", "--quick"), "--quick chooses among the study's models"),
        (("MODEL:make", "MODEL:make", "-p", "cpu/eager"), "two sources have this name"),
        (("absent.py:make", "-p", "cpu/eager"), "nothing ran: absent.py"),
        (("MODEL:make", "-p", "cuda/eager"), "nothing ran on this machine: "),
    ],
)
def test_wrong_use_is_one_line_and_status_2(arguments, said, model_file, tmp_path, capfd):
    if "cuda/eager" in arguments and torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    named = [each.replace("MODEL", str(model_file)) for each in arguments]
    assert main(["study", "deviations", "--collect", str(tmp_path / "x"), *named]) == 2
    out, err = capfd.readouterr()
    lines = [line for line in err.splitlines() if "refused: " not in line and " s  " not in line]
    assert len(lines) == 1 and said in lines[0] and not out
    assert not (tmp_path / "x").exists()


@pytest.mark.nightly
def test_every_runtime_of_this_machine(model_file, tmp_path):
    """Four compilers and a refusal: each platform is a row, or a reason."""
    store = TensorStore(tmp_path / "store")
    names = ["cpu/eager", "cpu/jit", "cpu/inductor", "onnxruntime/cpu", "openvino/cpu", "openvino/cpu@precision=f32"]

    def suite(_):
        graph = capture(torch.fft.rfft, (torch.randn(64),), tensors=store)
        return list(given_model("rfft", graph, 1, store))

    found = collect(tmp_path / "x", suite, given_settings(names))
    assert {each.platform for each in found.observations} == set(names)
    assert all(each.classes or each.message for each in found.observations)
