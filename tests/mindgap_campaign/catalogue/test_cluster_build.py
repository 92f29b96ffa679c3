"""A catalogue that a cluster captures equals one that this machine builds: first without the processes of Ray."""

from __future__ import annotations

import importlib.util
import textwrap
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

from campaign.ray_cluster import add_node, cluster_of
from mindgap.graph import Graph, Input, MindgapError, Node, Normal, Ref, Stored, TensorSpec, TensorStore, digest, encode
from mindgap_campaign.catalogue import Catalogue, ModelLimits, build, builder
from mindgap_campaign.catalogue.answers import Answer, RecordedAnswers, SourceAnswers
from mindgap_campaign.catalogue.capture_client import WorkerDied
from mindgap_campaign.cli.corpus import build as build_command
from mindgap_campaign.cluster import capture_task
from mindgap_campaign.cluster.capture_place import RayCaptures, captures_on_ray
from mindgap_campaign.cluster.capture_task import NodeSoftware, SourceFile, files_of
from mindgap_campaign.cluster.messages import ClusterProblem

SPEC = TensorSpec.contiguous("float32", (3,))
TABLE = np.arange(3, dtype=np.float32)
#: Programs of each source: what is called, and what becomes of a pass: `ok`, `refused` before it is traced, `unproven`
#: (it fails only if it is to be proven), `dies` (the worker, while proving). `+table`: its graph has a stored tensor.
SOURCES = {
    "timm:relu": ["relu ok"],
    "timm:relu_unproven": ["relu unproven"],
    "timm:relu_dies": ["relu dies"],
    "timm:relu_again": ["relu ok"],
    "timm:twice": ["tanh ok", "tanh ok", "tanh unproven"],
    "timm:refused": ["exp refused", "neg ok"],
    "timm:unopened": [],
    "timm:left_out": [],
    "timm:first_unproven": ["sin unproven"],
    "timm:then_proven": ["sin ok"],
    "timm:dies": ["cos dies"],
    "timm:table": ["abs ok+table"],
}


class ScriptedClient:
    """Answers as a capture worker does, without one."""

    def __init__(self, tensors: Path, limits: ModelLimits) -> None:
        self.tensors = TensorStore(tensors)

    def expand(self, pattern: str) -> list[str]:
        return [pattern]

    def open(self, source: str) -> dict[str, Any]:
        if source == "timm:unopened":
            raise WorkerDied("crashed with SIGSEGV while opening")
        if source == "timm:left_out":
            return {"kind": "left_out", "reason": "900 million parameters, of 200 allowed"}
        names = [f"{source}#{index}" for index in range(len(SOURCES[source]))]
        return {"kind": "opened", "programs": [{"name": name.partition(":")[2], "source": name} for name in names]}

    def capture(self, source: str, index: int, name: str, wanted: Any) -> tuple[dict[str, Any], bytes]:
        op, _, fate = SOURCES[source][index].partition(" ")
        if fate == "refused":
            return {"kind": "failed", "reason": f"{op} depends on the data"}, b""
        recipe = Normal(1)
        if fate.endswith("+table"):
            recipe = Stored(self.tensors.put(TABLE))
        count = 1 if name == "forward" else 2
        nodes = tuple(Node(f"aten.{op}.default", (Ref(at),), (), (SPEC,)) for at in range(count))
        graph = Graph((Input(SPEC, recipe),), nodes, (count,))
        proving = wanted(f"{op} {name}")
        if proving and fate == "unproven":
            return {"kind": "failed", "reason": f"{op} is not proven"}, b""
        if proving and fate == "dies":
            raise WorkerDied("crashed with SIGSEGV while proving")
        header = {
            "kind": "captured", "graph": digest(graph), "nodes": count, "parameters": 0, "operators": [nodes[0].op],
            "structure": f"{op} {name}", "structure_operators": op, "structure_shapes": op, "proven": proving,
        }  # fmt: skip
        return header, encode(graph) if proving else b""

    def close(self) -> None: ...


class InlineRay:
    """Ray's calls, each task run where it is asked for. The latest task is ready first."""

    exceptions = SimpleNamespace(RayError=KeyError)

    def __init__(self, cpus: int) -> None:
        self.cpus, self.tasks = cpus, 0

    def remote(self, **options: Any) -> Any:
        def task(function: Any) -> Any:
            def call(*arguments: Any) -> Any:
                self.tasks += 1
                return Reference(function(*arguments))

            return SimpleNamespace(remote=call)

        return task

    def get(self, reference: Any) -> Any:
        return reference.result

    def wait(self, references: list[Any], timeout: float) -> Any:
        last = max(references, key=lambda each: each.number)
        return [last], [each for each in references if each is not last]

    def put(self, thing: Any) -> Any:
        return thing

    def nodes(self) -> list[dict[str, Any]]:
        return [{"NodeID": "n", "NodeManagerAddress": "n", "Resources": {"CPU": self.cpus}, "Alive": True}]

    def cancel(self, reference: Any, force: bool) -> None: ...


class Reference:
    made = 0

    def __init__(self, result: Any) -> None:
        Reference.made += 1
        self.result, self.number = result, Reference.made


def contents(catalogue: Catalogue) -> dict[str, Any]:
    """All of a catalogue but times, and what files of graphs and tensors there are."""
    rows = catalogue.store.rows(
        "SELECT source, pass, asked, scheme, name, status, signature, versions, reason, graph, holder, structure, "
        "structure_operators, structure_shapes, nodes, parameters, operators, proven FROM captures ORDER BY ALL"
    )
    asked = catalogue.store.rows("SELECT source, passes, programs FROM asked ORDER BY source")
    kept = {
        str(file.relative_to(catalogue.path)): file.read_bytes()
        for folder in ("graphs", "tensors")
        for file in (catalogue.path / folder).rglob("*")
        if file.is_file()
    }
    assert rows and asked and kept
    return {"rows": rows, "asked": asked, "files": kept}


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "CaptureClient", ScriptedClient)
    monkeypatch.setattr(capture_task, "CaptureClient", ScriptedClient)


@pytest.mark.parametrize(("cpus", "tasks"), [(1, 2), (6, 14)])
def test_a_cluster_builds_what_one_worker_does(scripted: None, tmp_path: Path, cpus: int, tasks: int) -> None:
    local = Catalogue(tmp_path / "local", create=True)
    assert build(local, list(SOURCES), ("backward",)) == len(SOURCES)
    ray = InlineRay(cpus)
    there = Catalogue(tmp_path / "cluster", create=True)
    place = RayCaptures(ray, "head:1", NodeSoftware.here())
    ticks = list[str]()
    assert build(there, list(SOURCES), ("backward",), place=place, on_tick=lambda t: ticks.append(t.source)) == 12
    assert contents(there) == contents(local)
    assert ticks == list(SOURCES)
    statuses = {(entry.source, entry.of): entry.status for entry in there.entries()}
    assert statuses["timm:relu#0", "backward"] == "captured"
    assert statuses["timm:relu_unproven#0", "forward"] == statuses["timm:relu_dies#0", "forward"] == "duplicate"
    assert statuses["timm:first_unproven#0", "forward"] == "failed"
    assert [file.name for file in there.tensors.iterdir()] == [f"{TensorStore(tmp_path / 't').put(TABLE)}.safetensors"]
    # What was to be proven on a node, failed, and is a duplicate of a graph that came in between, is captured again.
    assert ray.tasks == tasks
    assert build(there, list(SOURCES), ("backward",), place=place) == 0, "nothing is done twice"
    assert ray.tasks == tasks


@pytest.mark.parametrize("quick", [0, 1])
def test_workers_that_overtake_each_other_build_what_one_does(
    scripted: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: int
) -> None:
    """Each worker is slow at every second source, so that a later program of a structure is proven first."""
    local = Catalogue(tmp_path / "local", create=True)
    build(local, list(SOURCES), ("backward",))

    class Slow(ScriptedClient):
        def open(self, source: str) -> dict[str, Any]:
            time.sleep(0.2 if list(SOURCES).index(source) % 2 != quick else 0.0)
            return super().open(source)

    monkeypatch.setattr(builder, "CaptureClient", Slow)
    several = Catalogue(tmp_path / "several", create=True)
    ticks = list[str]()
    assert build(several, list(SOURCES), ("backward",), jobs=3, on_tick=lambda t: ticks.append(t.source)) == 12
    assert ticks == list(SOURCES)
    assert contents(several) == contents(local)


def test_no_source_is_captured_far_ahead_of_a_slow_one(
    scripted: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, most = list[str](), list[int]()

    class Slow(ScriptedClient):
        def open(self, source: str) -> dict[str, Any]:
            if source == "timm:relu":
                time.sleep(0.5)
                most.append(len(opened))
            opened.append(source)
            return super().open(source)

    monkeypatch.setattr(builder, "CaptureClient", Slow)
    monkeypatch.setattr(builder, "_AHEAD", 4)
    assert build(Catalogue(tmp_path / "several", create=True), list(SOURCES), jobs=2) == 12
    assert most == [3] and sorted(opened) == sorted(SOURCES)


def test_a_build_that_is_interrupted_goes_on(scripted: None, tmp_path: Path) -> None:
    place = RayCaptures(InlineRay(2), "head:1", NodeSoftware.here())
    there = Catalogue(tmp_path / "cluster", create=True)

    def stop(tick: Any) -> None:
        if tick.done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(there, list(SOURCES), place=place, on_tick=stop)
    assert build(there, list(SOURCES), place=place) == len(SOURCES) - 5
    local = Catalogue(tmp_path / "local", create=True)
    build(local, list(SOURCES))
    assert contents(there) == contents(local)


def test_what_a_node_did_not_answer_is_asked_again(tmp_path: Path) -> None:
    opened = Answer({"kind": "opened", "programs": [{"name": "relu", "source": "timm:relu#0"}]})
    unwanted = Answer({"kind": "captured", "graph": "g"}, structure="s", wanted=False)
    asked = list[tuple[Any, ...]]()

    def again(*step: Any) -> Answer:
        asked.append(step)
        return Answer(died="crashed")

    client = RecordedAnswers(SourceAnswers(opened, {(0, "forward"): unwanted}), TensorStore(tmp_path), again)
    held = {("forward", "s"): ("g", "timm:other#0")}
    assert client.capture("timm:relu", 0, "timm:relu#0", "forward", held) == unwanted
    assert asked == []
    for name in ("forward", "backward"):
        assert client.capture("timm:relu", 0, "timm:relu#0", name, {}).died == "crashed"
    assert asked == [("timm:relu", 0, "timm:relu#0", "forward"), ("timm:relu", 0, "timm:relu#0", "backward")]


def test_a_node_that_would_answer_otherwise_takes_no_part(scripted: None, tmp_path: Path) -> None:
    here = NodeSoftware.here()
    here.require()
    other = NodeSoftware(here.code, {**here.libraries, "timm": "0.0.1"})
    mine = here.libraries.get("timm", "is absent")
    there = Catalogue(tmp_path / "cluster", create=True)
    for software, said in (
        (NodeSoftware("other", here.libraries), "has another mindgap than this machine: install the same version"),
        (other, rf"other libraries than this machine: timm {mine} \(here 0.0.1\): install the same versions"),
    ):
        with pytest.raises(ClusterProblem, match=said):
            build(there, list(SOURCES), place=RayCaptures(InlineRay(2), "head:1", software))
    assert there.entries() == [], "what such a node captures is not written"


def test_a_node_needs_the_files_that_sources_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "models.py"
    file.write_text("make = None\n")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "relu").mkdir()
    for source in (f"{file}:make", "models.py:make#2", "records:models.py#7?seed=1"):
        assert files_of(source) == [SourceFile(str(file), 12)], source
    assert files_of("timm:relu") == [], "a name of a library is no folder"
    (held,) = files_of("models.py:make")
    held.require()
    file.write_text("make = 1\n")
    with pytest.raises(ClusterProblem, match=r"has another .*models.py, which a source names: share it, or copy"):
        held.require()
    file.unlink()
    with pytest.raises(ClusterProblem, match=r"has no .*models.py, which a source names: share it, or copy it there"):
        held.require()


def test_bad_input_is_one_line_and_makes_no_catalogue(tmp_path: Path) -> None:
    for options, said in (
        ({"ray": "nowhere"}, "--ray nowhere: give HOST:PORT of a cluster's head"),
        ({"ray": "127.0.0.1:1"}, "--ray 127.0.0.1:1: nobody answers there"),
        ({"ray": "auto", "jobs": 3}, "--jobs is for this machine"),
    ):
        with pytest.raises(MindgapError) as told:
            build_command(tmp_path / "new", ["timm:relu"], **options)
        assert said in str(told.value) and "\n" not in str(told.value)
    assert not (tmp_path / "new").exists()


MODELS = """
    import ctypes, os, time
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self, act, width=5):
            super().__init__()
            self.first, self.act = nn.Linear(4, width), act
            self.table = torch.linspace(-1, 1, 1 << 19).reshape(1024, 512)
        def forward(self, x):
            return self.act(self.first(x)), self.table[:7] * 2

    X = torch.linspace(-1, 1, 12).reshape(3, 4)
    def relu(): return Net(nn.ReLU()), (X,)
    def relu_again(): return Net(nn.ReLU(), 7), (X,)
    def tanh(): return Net(nn.Tanh()), (X,)
    def two(): return [(Net(nn.SiLU()), (X,)), (Net(nn.GELU()), (X,))]
    def sigmoid(): return Net(nn.Sigmoid()), (X,)
    def waits():
        if os.path.exists("started"):
            open("again", "w").close()
        else:
            with open("starting", "w") as file:
                file.write(str(os.getpid()))
            os.rename("starting", "started")
            time.sleep(300)
        return Net(nn.Softplus()), (X,)
    def raises(): raise ValueError("no such width")
    def leaves(): os._exit(7)
    def crashes(): ctypes.string_at(0)
    def data(): return (lambda x: x[x > 0]), (X,)
"""


def kill_node_of(cluster: Any, marker: Path, pids: list[int]) -> None:
    """Kills the node on which a model has written the number of its process."""
    until = time.monotonic() + 300
    while not marker.exists() and time.monotonic() < until:
        time.sleep(0.05)
    pids.append(int(marker.read_text()))
    above = {process.pid for process in psutil.Process(pids[0]).parents()}
    (victim,) = [node for node in cluster.worker_nodes if node.all_processes["raylet"][0].process.pid in above]
    cluster.remove_node(victim, allow_graceful=False)


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed")
def test_a_node_that_is_killed_in_the_middle_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "models.py"
    file.write_text(textwrap.dedent(MODELS))
    monkeypatch.chdir(tmp_path)
    names = ("relu", "crashes", "relu_again", "waits", "tanh", "raises", "two", "leaves", "data", "sigmoid")
    sources = [f"models.py:{name}" for name in names]
    there, pids = Catalogue(tmp_path / "cluster", create=True), list[int]()
    with cluster_of([]) as cluster:
        # The head has no processor for tasks: the driver needs it.
        for cpus in (0, 1, 1):
            add_node(cluster, {}, cpus)
        with captures_on_ray(cluster.address) as place:
            killer = threading.Thread(target=kill_node_of, args=(cluster, tmp_path / "started", pids))
            killer.start()
            assert build(there, sources, ("backward",), place=place) == len(sources)
            killer.join()
    assert (tmp_path / "again").exists(), "the source was captured again on another node"
    assert not psutil.pid_exists(pids[0]), "a worker ends with its node"
    local = Catalogue(tmp_path / "local", create=True)
    build(local, sources, ("backward",))
    assert contents(there) == contents(local)
    failed = {entry.source: entry.reason for entry in there.entries("status = 'failed'")}
    assert "SIGSEGV" in failed["models.py:crashes"] and "status 7" in failed["models.py:leaves"]
    assert list(there.tensors.iterdir())
