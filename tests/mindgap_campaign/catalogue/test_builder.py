"""A build is real processes over real models: bad ones cost their own row; killing it costs nothing that was done."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from importlib.util import find_spec

import pytest

from mindgap.graph import MindgapError
from mindgap.results.store import StoreError
from mindgap_campaign.catalogue import Catalogue, ModelLimits, build, stats_of

MODELS = """
    import ctypes, os, sys, time
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self, act, width):
            super().__init__()
            self.first, self.act, self.last = nn.Linear(4, width), act, nn.Linear(width, 2)
        def forward(self, x):
            return self.last(self.act(self.first(x)))

    X = torch.linspace(-1, 1, 12).reshape(3, 4)
    def relu(): return Net(nn.ReLU(), 5), (X,)
    def tanh(): return Net(nn.Tanh(), 5), (X,)
    def relu_again(): return Net(nn.ReLU(), 7), (X,)
    def two(): return [(Net(nn.SiLU(), 3), (X,)), (Net(nn.GELU(), 3), (X,))]
    def integers(): return (lambda x: x + 1), (torch.arange(4),)

    def raises(): raise ValueError("no such width")
    def prints():
        print("to stdout " * 10000); sys.stderr.write("to stderr " * 10000)
        return Net(nn.Sigmoid(), 5), (X,)
    def exits(): sys.exit(3)
    def leaves(): os._exit(7)
    def crashes(): ctypes.string_at(0)
    def spins():
        while True: pass
    def sleeps(): time.sleep(3600)
    def eats():
        held = []
        while True: held.append(bytearray(os.urandom(1 << 20)) * 64)
    def data(): return (lambda x: x[x > 0]), (X,)
"""


@pytest.fixture
def models(tmp_path):
    file = tmp_path / "models.py"
    file.write_text(textwrap.dedent(MODELS))
    return lambda *names: [f"{file}:{name}" for name in names]


def statuses(catalogue, of="forward"):
    return {entry.source.partition("models.py:")[2]: entry.status for entry in catalogue.entries("pass = ?", [of])}


def test_each_structure_is_kept_once_with_its_gradients(models, tmp_path):
    catalogue = Catalogue(tmp_path / "catalogue", create=True)
    sources = models("relu", "tanh", "relu_again", "two", "integers")
    assert build(catalogue, sources, ("backward",)) == 5
    found = statuses(catalogue)
    assert found.pop("relu_again") == "duplicate"
    assert set(found.values()) == {"captured"} and len(found) == 5  # `two` is two programs
    backward = statuses(catalogue, "backward")
    assert backward.pop("integers") == "failed" and set(backward.values()) == {"captured"} and len(backward) == 4

    relu, again = catalogue.entry(sources[0]), catalogue.entry(sources[2])
    assert again.graph != relu.graph == again.holder and again.structure == relu.structure
    assert relu.proven and not again.proven
    assert catalogue.graph(again) == catalogue.graph(relu)
    assert [node.op for node in catalogue.graph(relu).nodes] == [
        "aten.linear.default", "aten.relu.default", "aten.linear.default",
    ]  # fmt: skip

    stats = stats_of(catalogue)
    forward = next(each for each in stats.distinct if each.of == "forward")
    assert forward.models == 6 and forward.graphs == 6
    assert forward.structures["with attributes and dtypes"] == 5 and forward.structures["with shapes"] == 6
    for zoo in stats.zoos:
        assert zoo.tried == zoo.captured + zoo.duplicates + zoo.left_out + zoo.failed

    assert build(catalogue, sources, ("backward",)) == 0, "nothing is done twice"
    assert build(catalogue, sources, ("backward",), retry=True) == 1, "what failed is tried again"
    assert statuses(catalogue)["integers"] == "captured", "a graph is no duplicate of itself"


@pytest.mark.nightly
def test_a_bad_model_costs_its_row_and_says_why(models, tmp_path):
    catalogue = Catalogue(tmp_path / "catalogue", create=True)
    reasons = {
        "raises": "no such width", "exits": "SystemExit: 3", "leaves": "exited with status 7", "crashes": "SIGSEGV",
        "spins": "s of processor time", "sleeps": "no answer within", "eats": "out of memory",
        "data": "depends on the data", "absent": "absent",
    }  # fmt: skip
    good = ("relu", "prints", "tanh")
    # The good ones come between and after the bad.
    sources = models("relu", "raises", "exits", "leaves", "prints", "crashes", "spins", "sleeps", "eats", "data",
                     "absent", "tanh")  # fmt: skip
    limits = ModelLimits(cpu_seconds=8, memory_bytes=2 << 30, patience=2.5)
    assert build(catalogue, sources, limits=limits) == len(sources)
    found = statuses(catalogue)
    assert Counter(found.values()) == {"captured": len(good), "failed": len(reasons)}
    for name, reason in reasons.items():
        entry = catalogue.entry(*models(name))
        assert reason in entry.reason and "\n" not in entry.reason, (name, entry.reason)


@pytest.mark.nightly
def test_a_source_that_does_not_open_again_after_a_crash_says_why(models, tmp_path):
    """The worker has done other work before, so the crashed pass is tried once more in a new worker."""
    (tmp_path / "once.py").write_text(
        textwrap.dedent("""
        import ctypes, pathlib, torch
        seen = pathlib.Path(__file__).with_suffix(".seen")
        def crashes(x): ctypes.string_at(0)
        def make():
            if seen.exists(): raise ValueError("not a second time")
            seen.touch()
            return crashes, (torch.ones(2),)
        """)
    )
    catalogue = Catalogue(tmp_path / "catalogue", create=True)
    source = f"{tmp_path / 'once.py'}:make"
    assert build(catalogue, [*models("relu"), source]) == 2
    assert "not a second time" in catalogue.entry(source).reason


@pytest.mark.nightly
def test_zoo_patterns_and_what_names_nothing(tmp_path):
    catalogue = Catalogue(tmp_path / "catalogue", create=True)
    with pytest.raises(MindgapError, match=r"nothing to build.*nonesuch"):
        build(catalogue, ["nonesuch:*"])
    if find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    assert build(catalogue, ["torchvision:squeezenet1_[01]?size=64", "torchvision:nonesuch*"]) == 2
    found = {entry.source: entry for entry in catalogue.entries()}
    assert found["torchvision:squeezenet1_1?size=64"].status == "captured"
    assert "names matches" in found["torchvision:nonesuch*"].reason


@pytest.mark.nightly
def test_a_killed_build_resumes_to_the_same_catalogue(models, tmp_path):
    sources = models("relu", "tanh", "relu_again", "two", "integers", "raises", "data")
    undisturbed = Catalogue(tmp_path / "whole", create=True)
    build(undisturbed, sources)
    broken = tmp_path / "broken"
    command = [sys.executable, "-m", "mindgap", "corpus", "build", str(broken), "-j", "2", *sources]
    for delay in (1.5, 4.0, 6.0):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    resumed = Catalogue(broken)

    def rows(catalogue):
        return {(e.source, e.of): (e.status, e.reason, e.graph, e.structure, e.holder) for e in catalogue.entries()}

    assert rows(resumed) == rows(undisturbed)
    for entry in resumed.entries("status = 'captured'"):
        assert resumed.graph(entry)


@pytest.mark.nightly
def test_damage_is_told_and_costs_one_entry(models, tmp_path):
    catalogue = Catalogue(tmp_path / "catalogue", create=True)
    build(catalogue, models("relu", "tanh"))
    relu, tanh = (catalogue.entry(source) for source in models("relu", "tanh"))
    file = next((tmp_path / "catalogue" / "graphs").rglob(f"{relu.graph}.graph"))
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(StoreError, match=relu.graph):
        catalogue.graph(relu)
    assert catalogue.graph(tanh).nodes
    with pytest.raises(StoreError, match="no store"):
        Catalogue(tmp_path / "elsewhere")
