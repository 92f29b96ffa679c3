"""Platforms that run in another environment."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import entry_points, requires
from pathlib import Path

import numpy as np
import pytest

from mindgap.cli.app import main
from mindgap.graph import Constant, Graph, Input, Node, Ref, TensorSpec, TensorStore
from mindgap.graph.compare.digest import digested
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.platforms.environments import EnvironmentProblem, find as find_environment
from mindgap.platforms.environments.environment import NEEDED
from mindgap.platforms.environments.installation import adopt, create
from mindgap.platforms.listing import list_platforms, platform_info
from mindgap.platforms.name import parse
from mindgap.platforms.other_environment import BackendInEnvironment, BackendWithoutEnvironment, probe_all
from mindgap.platforms.protocol import PlatformError
from mindgap.platforms.registry import canonical, find
from mindgap.results.settings import RunSettings
from mindgap.run.outcome import Job, Outcome
from mindgap.run.pool import WorkerPool
from mindgap_surveys.support.graph_survey import may_lack

MODEL = """
import torch

def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Tanh()).eval(), (torch.randn(2, 8),)
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home with mindgap's own interpreter as the environment `here`, and `layer`, which has no package itself."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINDGAP_HOME", str(folder))
        adopt("here", sys.executable, lambda line: None)
        create("layer", [], None, isolated=False, say=lambda line: None)
        yield folder


def sine(op: str = "aten.sin.default", **kwargs: object) -> Graph:
    spec = TensorSpec("float32", (5,), (1,))
    node = Node(op, (Ref(0),), tuple(kwargs.items()), (spec,))
    return Graph((Input(spec, Constant(0.5), "input"),), (node,), (1,))


def test_the_environment_is_part_of_the_name(home: Path) -> None:
    assert canonical("cpu/eager@threads=1,env=here") == "cpu/eager@env=here,threads=1"
    backend, options = find("cpu/eager@env=here,threads=1")
    assert isinstance(backend, BackendInEnvironment) and options == {"threads": "1"}
    assert backend.environment(options) == find("cpu/eager@threads=1")[0].environment(options)
    by_place, _ = find("mindgap.platforms.pytorch.eager:CPU@env=here")
    assert isinstance(by_place, BackendInEnvironment) and by_place.place == "mindgap.platforms.pytorch.eager:CPU"


def test_an_environment_or_option_that_is_none(home: Path) -> None:
    with pytest.raises(EnvironmentProblem, match=r"no environment her .did you mean here"):
        find("cpu/eager@env=her")
    with pytest.raises(PlatformError, match="no option 'thread'"):
        find("cpu/eager@env=here,thread=1")


def test_a_worker_runs_there_and_its_description_says_so(home: Path) -> None:
    with WorkerPool(["cpu/eager", "cpu/eager@env=here"], tensors=home / "tensors") as pool:
        here, there = (pool.run(Job(name, sine(), want="outputs")) for name in ("cpu/eager", "cpu/eager@env=here"))
        described = pool.describe("cpu/eager@env=here")
    assert here.arrays is not None and there.arrays is not None, there.message
    assert np.array_equal(here.arrays[0], there.arrays[0])
    assert there.platform == "cpu/eager@env=here"
    assert described["environment"] == {"python": ".".join(map(str, sys.version_info[:3]))}
    assert here.fingerprint != there.fingerprint


@pytest.mark.sampled(1)
@pytest.mark.parametrize("platform", ["cpu/eager@env=here", "cpu/inductor", "onnxruntime/cpu", "cpu/jit"])
def test_what_another_version_lacks_is_a_refusal(home: Path, platform: str) -> None:
    unknown, other = sine("aten.sine_of_a_later_version.default"), sine(a_later_argument=1)
    with WorkerPool([platform], tensors=home / "tensors") as pool:
        outcomes = [pool.run(Job(platform, graph)) for graph in (unknown, other)]
    assert [each.status for each in outcomes] == ["unsupported"] * 2, outcomes
    assert [each.op for each in outcomes] == ["aten.sine_of_a_later_version.default", "aten.sin.default"]
    assert "is not in torch" in outcomes[0].message
    assert "takes no argument 'a_later_argument': its schema has changed" in outcomes[1].message


def test_an_environment_without_a_package_of_the_platform_is_not_there(home: Path) -> None:
    """It would be mindgap's own platform under another name, and agree with itself."""
    found = find("cpu/eager@env=layer")[0].probe()
    assert not found.available
    assert found.reason == "environment layer has not installed torch: it would run on mindgap's own packages"
    with WorkerPool(["cpu/eager@env=layer"], tensors=home / "tensors") as pool:
        outcome = pool.run(Job("cpu/eager@env=layer", sine()))
    assert "would run on mindgap's own packages" in outcome.message


@pytest.mark.nightly
def test_diff_compares_platforms_of_two_environments(
    home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    source = f"{tmp_path}/model.py:make"
    assert main(["diff", source, "-p", "cpu/jit@env=here", "--reference", "cpu/eager@env=here", "--json"]) == 0
    report = json.loads(capfd.readouterr().out)
    (row,) = report["rows"]
    assert (row["platform"], row["verdict"]) == ("cpu/jit@env=here", "identical")
    assert report["reference"] == "cpu/eager@env=here"
    assert main(["diff", source, "-p", "cpu/eager@env=layer"]) == 2
    assert "not available here: environment layer has not installed torch" in capfd.readouterr().err


@pytest.mark.nightly
def test_environments_do_not_share_exported_models(home: Path) -> None:
    """An exporter of another version writes another model."""
    names = ["mindgap.platforms.pytorch.eager:CPU", "mindgap.platforms.pytorch.eager:CPU@env=here"]
    with WorkerPool(names, tensors=home / "tensors") as pool:
        for name in names:
            assert pool.run(Job(name, sine())).status == "ok"
        shared = {
            Path(f"/proc/{pid}/environ").read_text().partition("MINDGAP_SHARED=")[2].partition("\0")[0]
            for pid in pool.pids().values()
        }
    assert len(shared) == 2


def test_a_platform_is_named_without_its_environment_on_this_machine(home: Path) -> None:
    """As in the plan of a campaign that ran elsewhere."""
    assert canonical("cpu/eager@threads=1,env=elsewhere") == "cpu/eager@env=elsewhere,threads=1"
    with pytest.raises(EnvironmentProblem, match="no environment elsewhere"):
        find("cpu/eager@env=elsewhere")


def test_another_environment_may_lack_operators() -> None:
    assert may_lack(parse("cpu/eager@env=here"), parse("cpu/eager")) and may_lack(
        parse("cpu/jit@env=here"), parse("cpu/eager@env=here")
    )
    assert not may_lack(parse("cpu/eager@env=here,threads=1"), parse("cpu/eager@env=here"))


def test_an_operator_that_the_judge_lacks_leaves_its_row_unjudged(home: Path) -> None:
    """Both platforms run it: their PyTorch is newer."""
    graph = sine("aten.sine_of_a_later_version.default")

    def execute(job: Job) -> Outcome:
        value = np.full(5, 1.0 if job.platform == "cpu/eager" else 2.0, np.float32)
        whole = (value,) if job.want == "outputs" else None
        return Outcome(job.platform, "d", "ok", (digested(value),), whole)

    context = RunContext(execute, RunSettings(), TensorStore(home / "tensors"))
    row = GraphComparison(context, "m", graph).row(parse("cpu/jit"))
    assert row.unjudged and "is not in torch" in row.detail


def test_env_commands(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "list", "--json"]) == 0
    assert [each["name"] for each in json.loads(capfd.readouterr().out)] == ["here", "layer"]
    assert main(["env", "check", "here", "--json"]) == 0
    (found,) = json.loads(capfd.readouterr().out)
    assert found["works"] and found["platforms"]["cpu/eager@env=here"]["available"]
    assert main(["env", "create", "nothing"]) == 2
    assert "say what to install" in capfd.readouterr().err
    assert main(["env", "remove", "nothing"]) == 2
    assert "no environment nothing" in capfd.readouterr().err


@pytest.mark.nightly
def test_another_version_of_a_runtime_beside_its_own(
    home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    try:
        create("older", ["onnxruntime==1.28.0"], None, isolated=False, say=lambda line: None)
    except EnvironmentProblem as error:
        pytest.skip(f"no package registry: {error}")
    (tmp_path / "model.py").write_text(MODEL)
    asked = ["-p", "onnxruntime/cpu", "-p", "onnxruntime/cpu@env=older"]
    assert main(["diff", f"{tmp_path}/model.py:make", *asked, "--json"]) == 0
    report = json.loads(capfd.readouterr().out)
    versions = {each["platform"]: each["versions"].get("onnxruntime") for each in report["platforms"]}
    assert versions["onnxruntime/cpu@env=older"] == "1.28.0" != versions["onnxruntime/cpu"]
    assert {row["verdict"] for row in report["rows"]} <= {"identical", "rounding"}


# -- platforms with a recipe --


@pytest.fixture
def without_recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home in which no recipe was followed."""
    monkeypatch.setenv("MINDGAP_HOME", str(tmp_path / "home"))
    if find("tinygrad/cpu")[0].probe().available:
        pytest.skip("mindgap's own environment has tinygrad")


@pytest.mark.usefixtures("without_recipes")
def test_a_platform_whose_recipe_was_not_followed_names_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    backend, _ = find("tinygrad/cpu@opt=off")
    assert isinstance(backend, BackendWithoutEnvironment)
    assert (
        "not installed: tinygrad" in backend.probe().reason
        and "`mindgap env create tinygrad`" in backend.probe().reason
    )
    with pytest.raises(PlatformError, match="mindgap env create tinygrad"):
        backend.open({})
    assert main(["diff", "ops:aten.sin.default", "-p", "tinygrad/cpu"]) == 2
    assert "mindgap env create tinygrad" in capsys.readouterr().err


@pytest.mark.usefixtures("without_recipes")
def test_a_platform_runs_in_the_environment_of_its_recipe() -> None:
    made = create("tinygrad", [], None, isolated=False, say=lambda line: None)
    backend, options = find("tinygrad/cpu@threads=1")
    assert isinstance(backend, BackendInEnvironment) and backend.where == made and options == {"threads": "1"}
    info = platform_info(parse("tinygrad/cpu"))
    assert info.environment == "tinygrad" and info.options["env"].endswith("default: tinygrad, by its recipe)")
    assert not info.available and "not installed: tinygrad" in info.reason
    # Its probe starts an interpreter: it is made for those who ask.
    assert "tinygrad/cpu" not in {each.platform for each in list_platforms(["cpu/eager"])}
    assert "tinygrad/cpu" in {each.platform for each in list_platforms(["tinygrad/cpu"])}


# -- probes --

CHATTY = """
import subprocess, sys, threading, time
from mindgap.platforms.protocol import Availability

print("printed on import")

class Backend:
    options = {}

    def probe(self):
        subprocess.Popen([sys.executable, "-c", "print('child'); import time; time.sleep(1000)"])
        threading.Thread(target=time.sleep, args=(1000,)).start()
        print("printed by the probe")
        return Availability(True, versions={"numpy": "1"})

class Leaving(Backend):
    def probe(self):
        sys.exit("licence not found")

BACKEND, LEAVING = Backend(), Leaving()
"""


def test_a_probe_that_prints_starts_processes_and_exits(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "chatty.py").write_text(CHATTY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    started = time.monotonic()
    found = probe_all(find_environment("here"), ["chatty:BACKEND", "chatty:LEAVING"])
    assert found["chatty:BACKEND"].available
    assert found["chatty:LEAVING"].reason == "its probe failed: SystemExit: licence not found"
    assert time.monotonic() - started < 60


_IMPORTS_WITHOUT = """
import importlib, sys

class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in LACKING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Lacking())
for name in MODULES:
    importlib.import_module(name)
"""


def test_what_an_environment_loads_needs_only_what_is_installed_there() -> None:
    """The worker, the check of an environment, and every platform's module."""
    ours = re.compile(r"extra == .(store|html).")
    lines = [line for line in requires("mindgap") or [] if "extra ==" not in line or ours.search(line)]
    required = [re.split(r"[^\w-]", line)[0] for line in lines]
    provided = {"torch", "typing_extensions", *(name.replace("_", "-") for name in NEEDED)}
    lacking = {name.replace("-python", "").replace("-", "_") for name in set(required) - provided}
    assert {"psutil", "duckdb", "vl_convert"} <= lacking
    # `faulty` reads its file of faults with pydantic, and has no environment.
    places = {point.value.partition(":")[0] for point in entry_points(group="mindgap.platforms")} - {
        "mindgap_campaign.faulty"
    }
    modules = ["mindgap.run.server", "mindgap.run.worker", "mindgap.platforms.environment_process", *sorted(places)]
    code = _IMPORTS_WITHOUT.replace("LACKING", repr(lacking)).replace("MODULES", repr(modules))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
