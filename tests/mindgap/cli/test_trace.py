"""`mindgap trace` end to end: a fault that is followed, equal sides, repeated runs, wrong use."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from cli.command_line import mindgap
from mindgap.graph import MindgapError
from mindgap.graph_capture import capture
from mindgap.judge.trace.value_dump import new_dump

MODELS = """
import torch


def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.GELU(), torch.nn.Linear(6, 3)), (torch.randn(5, 8),)


class Sum(torch.nn.Module):
    def forward(self, x, places, values):
        return x.index_put((places,), values, accumulate=True)


def colliding():
    torch.manual_seed(0)
    return Sum(), (torch.zeros(16), torch.randint(0, 16, (200_000,)), torch.randn(200_000))


def two():
    return [make(), make()]
"""
EAGER = "cpu/eager@threads=1"
FAULTY = "faulty/eager@faults=faults.toml"


@pytest.fixture
def models(tmp_path: Path) -> Path:
    (tmp_path / "models.py").write_text(MODELS)
    (tmp_path / "faults.toml").write_text('[[fault]]\nkind = "scaled"\nfactor = 1.5\nwhen = { op = "aten.gelu*" }\n')
    return tmp_path


@pytest.mark.nightly
def test_values_of_both_sides_are_written_with_an_index(models: Path) -> None:
    command = ("trace", "models.py:make", "-p", FAULTY, "--reference", EAGER, "--dump")
    ran = mindgap(*command, "all", cwd=models)
    assert ran.status == 1 and "6 files of 3 values, and index.json: all" in ran.out, ran.err
    index = json.loads((models / "all" / "index.json").read_text())
    assert (index["platform"], index["reference"], index["unseen"]) == (
        FAULTY,
        EAGER,
        {"platform": [], "reference": []},
    )
    linear, gelu, _ = index["values"]
    ours, theirs = (np.load(models / "all" / gelu["files"][side]) for side in ("platform", "reference"))
    assert ours.dtype == np.float32 and np.allclose(ours, 1.5 * theirs) and gelu["role"] == "introduces"
    assert gelu["max_abs"] == pytest.approx(np.abs(ours - theirs).max())
    same = [np.load(models / "all" / name) for name in linear["files"].values()]
    assert np.array_equal(*same) and linear["state"] == "equal"
    first = torch.nn.functional.gelu(torch.from_numpy(same[1]))
    assert np.allclose(first.numpy(), theirs)

    again = mindgap(*command, "all", cwd=models)
    assert again.status == 2 and again.err.endswith(
        "it is not empty; name a directory that does not exist, or is empty\n"
    )
    layer = mindgap(*command, "layer", "--layer", "2", cwd=models)
    (value,) = json.loads((models / "layer" / "index.json").read_text())["values"]
    assert layer.status == 1 and value["op"] == "aten.linear.default" and value["node"] == 2
    wrong = mindgap(*command, "wrong", "--layer", "7", cwd=models)
    assert wrong.status == 2 and "--layer 7: no node of the graph is in it; layers with nodes: 0, 1, 2" in wrong.err


def test_what_a_dump_asks_for_is_checked_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for directory, layer, nodes, words in (
        ("none/there", None, None, "there is no directory"),
        ("file", None, None, "it is no directory"),
        ("new", "1", "2", "give one of the two"),
        ("new", None, "9..3", "as in --nodes 3..9"),
        ("new", None, "a", "as in --nodes 3..9"),
    ):
        with pytest.raises(MindgapError, match=words):
            new_dump(tmp_path / directory, layer, nodes)
    assert new_dump(tmp_path / "new", None, "7").nodes == (7, 7)
    assert not (tmp_path / "new").exists()


def test_values_that_do_not_fit_on_the_disk_are_refused_with_their_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = capture(lambda x: x.sin().exp(), (torch.ones(2**20),))
    dump = new_dump(tmp_path / "new", None, None)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=2**24))
    with pytest.raises(MindgapError, match=r"2 values of both sides take 0\.02 GiB, and 0\.02 GiB of disk are free"):
        dump.check(graph, graph, (0, 1))
    assert new_dump(tmp_path / "new", None, "1").check(graph, graph, (0, 1)) == [len(graph.inputs) + 1]
    with pytest.raises(MindgapError, match="the graph has nodes 0 to 1"):
        new_dump(tmp_path / "new", None, "5..6").check(graph, graph, (0, 1))


def test_a_fault_is_followed_to_the_outputs(models: Path) -> None:
    command = ("trace", "models.py:make", "-p", FAULTY, "--reference", EAGER, "--html", "t.html")
    ran = mindgap(*command, cwd=models)
    assert ran.status == 1, ran.err
    assert "first difference: aten.gelu.default (node 1" in ran.out and "introduces" in ran.out
    assert "1 of 3 values are equal, 2 differ; 1 of 1 outputs differ" in ran.out
    assert f"looking inside {FAULTY} changes its result: no" in ran.out
    ran = mindgap(*command, "--json", cwd=models)
    data = json.loads(ran.out)
    assert data["diverged"] and [value["state"] for value in data["values"]] == ["equal", "differs", "differs"]
    assert "aten.gelu.default" in (models / "t.html").read_text()


@pytest.mark.nightly
def test_equal_sides_are_status_0_and_all_values_are_shown_on_request(models: Path) -> None:
    ran = mindgap("trace", "models.py:make", "-p", EAGER, "--reference", EAGER, "--all", cwd=models)
    assert ran.status == 0, ran.err
    assert ran.out.count("aten.linear.default") == 2 and "3 of 3 values are equal" in ran.out


@pytest.mark.nightly
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="two threads collide on two cores")
def test_colliding_additions_are_deterministic_on_one_thread_only(models: Path) -> None:
    command = ("trace", "models.py:colliding", "-p", "cpu/eager", "--repeat", "600")
    ran = mindgap(*command, "--threads", "1,2", "--json", cwd=models)
    assert ran.status == 1, ran.err
    one, two = json.loads(ran.out)["runs"]
    assert len(one["counts"]) == 1 and len(two["counts"]) > 1
    assert sum(two["counts"].values()) == 600
    ran = mindgap(*command, "--threads", "1", "--processes", "2", cwd=models)
    assert ran.status == 0 and "1 distinct result in 1200 runs" in ran.out, ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("models.py:two", "-p", EAGER), "names 2 models"),
        (("models.py:make", "-p", EAGER, "--processes", "2"), "they need --repeat N"),
        pytest.param(
            ("models.py:make", "-p", EAGER, "--repeat", "2", "--threads", "0"),
            "--threads 0: write",
            marks=pytest.mark.nightly,
        ),
        (("models.py:make", "-p", "cpu/nowhere"), "cpu/nowhere"),
    ],
)
def test_wrong_use_is_one_line(models: Path, arguments: tuple[str, ...], message: str) -> None:
    ran = mindgap("trace", *arguments, cwd=models)
    assert ran.status == 2 and message in ran.err and not ran.out, ran.err
    assert len([line for line in ran.err.splitlines() if line.startswith("mindgap: ")]) == 1


@pytest.mark.nightly
def test_a_platform_that_refuses_is_status_2(models: Path) -> None:
    (models / "faults.toml").write_text('[[fault]]\nkind = "refusal"\nwhen = { op = "aten.gelu*" }\n')
    ran = mindgap("trace", "models.py:make", "-p", FAULTY, cwd=models)
    assert ran.status == 2 and f"nothing was compared: {FAULTY} does not run the graph: unsupported" in ran.err
