"""Measures how long a user waits for `mindgap diff` of a small model: `python benchmarks/small_diff.py [PLATFORM…]`.

    command  `mindgap diff FILE.py:make -p PLATFORM` of three layers, a new process each time    target: <= 4 s, and
             1.5 times the bare script with `cpu/jit`, 1.1 times with the others (set before the program's own
             export was compared too, which is a second one: `--no-own-path` measures without it)
    bare     a script that imports PyTorch, runs the model, converts it for the platform (`torch.jit.trace`,
             `torch.onnx.export` and ONNX Runtime, or `torch.compile`) and runs it there; also a new process, and with
             `cpu/inductor` an empty cache of compiled code for either
    session  each further `diff` in one `mindgap.Session`, of the same model and of a new one    target: <= 0.3 s

Medians of `--runs` runs, with the fastest and the slowest. Command and bare script alternate, so that other work on the
machine slows both alike. Processor seconds, which other work changes less, are those of a command and all its
processes. `--against CHECKOUT` alternates with the command of another checkout (its `.venv`, if it has one), and gives
the ratio of each pair's seconds: `python benchmarks/small_diff.py --runs 10 --against ../OLD`.
`parts` are measured one at a time, and in a command partly overlap: importing the command line, starting each worker
(the first waits for the fork server, a second does not), opening the source and capturing it, running on the two
platforms, judging.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from paired import python_of

MODEL = """
import torch

def make(seed=0):
    torch.manual_seed(seed)
    layers = torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 10)
    return torch.nn.Sequential(*layers).eval(), (torch.randn(8, 64),)
"""
BARE_JIT = """
import torch
from model import make
model, args = make()
with torch.no_grad():
    expected = model(*args)
    traced = torch.jit.trace(model, args)
    for _ in range(3):
        found = traced(*args)
print(float((expected - found).abs().max()))
"""
BARE_ONNX = """
import torch, onnxruntime
from model import make
model, args = make()
with torch.no_grad():
    expected = model(*args)
program = torch.onnx.export(model, args, dynamo=True, verbose=False)
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
[found] = session.run(None, {session.get_inputs()[0].name: args[0].numpy()})
print(float((expected - torch.from_numpy(found)).abs().max()))
"""
BARE_INDUCTOR = """
import torch
from model import make
model, args = make()
with torch.no_grad():
    expected = model(*args)
    found = torch.compile(model)(*args)
print(float((expected - found).abs().max()))
"""
BARE = {"cpu/jit": BARE_JIT, "onnxruntime/cpu": BARE_ONNX, "cpu/inductor": BARE_INDUCTOR}


def clocked(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def cpu_clocked(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and processor seconds of the processes that it started and waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = clocked(call)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def spread(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):6.2f} s  ({min(seconds):.2f} to {max(seconds):.2f})"


def process(folder: Path, *command: str, checkout: Path | None = None) -> str:
    """Runs Python in the folder; returns its standard output. Status 1 is a finding, and fine."""
    python, environment = (sys.executable, {**os.environ}) if checkout is None else python_of(checkout)
    # Installed packages have compiled files, and so has PyTorch.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    shutil.rmtree(folder / "inductor", ignore_errors=True)
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
    done = subprocess.run([python, *command], cwd=folder, capture_output=True, text=True, check=False, env=environment)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    return done.stdout


def commands(
    folder: Path, platform: str, runs: int, against: Path | None, own_path: bool
) -> tuple[dict[str, list[tuple[float, float]]], dict[str, Any]]:
    """Seconds and processor seconds of the command, of the bare script and of another checkout; a report."""
    diff = (
        "-m",
        "mindgap",
        "diff",
        "model.py:make",
        "-p",
        platform,
        "--json",
        *([] if own_path else ["--no-own-path"]),
    )
    report = json.loads(process(folder, *diff))
    (folder / "bare.py").write_text(BARE[platform])
    calls = {"mindgap diff": lambda: process(folder, *diff), "bare script": lambda: process(folder, "bare.py")}
    if against is not None:
        calls["mindgap diff, other checkout"] = lambda: process(folder, *diff, checkout=against)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    for number in range(runs):
        for name in [*calls] if number % 2 else reversed([*calls]):
            found[name].append(cpu_clocked(calls[name]))
    return found, report


def print_commands(found: dict[str, list[tuple[float, float]]]) -> None:
    for name, each in found.items():
        print(f"  {name:<46}{spread([seconds for seconds, _ in each])}")
        print(f"  {f'{name}, processor seconds':<46}{spread([cpu for _, cpu in each])}")
    ours = found["mindgap diff"]
    for name in [*found][1:]:
        for what, place in (("seconds", 0), ("processor seconds", 1)):
            ratios = [one[place] / other[place] for one, other in zip(ours, found[name], strict=True)]
            print(f"  {f'ratio to {name}, {what}':<58}{statistics.median(ratios):6.2f}")


def parts(folder: Path, platform: str, runs: int, report: dict[str, Any]) -> dict[str, list[float]]:
    """Seconds of the parts of a command, each alone."""
    from mindgap.graph import TensorStore
    from mindgap.models.sources.client import SourceClient
    from mindgap.run.pool import WorkerPool

    found: dict[str, list[float]] = {}

    def add(name: str, seconds: float) -> None:
        found.setdefault(name, []).append(seconds)

    for _ in range(runs):
        add("import the command line", clocked(lambda: process(folder, "-c", "import mindgap.cli.app")))
        for name in ("cpu/eager", platform):
            with WorkerPool([name]) as pool:
                turn = f"start {'a second' if f'start a worker of {name}' in found else 'a'} worker of {name}"
                add(turn, clocked(lambda pool=pool, name=name: pool.describe(name)))
        with SourceClient(TensorStore(folder / "tensors"), 60.0) as client:
            started = time.perf_counter()
            opened = client.open(f"{folder}/model.py:make")
            add("start the source worker and open the source", time.perf_counter() - started)
            add("capture", clocked(lambda client=client, opened=opened: client.capture(opened, 0)))
    [model], [row] = report["models"], report["rows"]
    found["run on cpu/eager"] = [model["timings"].get("total", 0.0)]
    found[f"run on {platform}"] = [row["timings"].get("total", 0.0)]
    found[f"judge (verdict {row['verdict']})"] = [row["timings"].get("judge", 0.0)]
    return found


def session(platform: str, runs: int) -> dict[str, list[float]]:
    """Seconds of the comparisons in one session."""
    from mindgap.workflows.diff import Session

    scope: dict[str, Any] = {}
    exec(MODEL, scope)
    found: dict[str, list[float]] = {"first": [], "same model": [], "new model": []}
    with Session() as kept:
        for number in range(2 * runs + 1):
            name = "first" if number == 0 else "same model" if number % 2 else "new model"
            model, args = scope["make"](number // 2)
            found[name].append(clocked(lambda m=model, a=args: kept.diff(m, a, platforms=[platform])))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("platforms", nargs="*", default=list(BARE), metavar="PLATFORM", help=", ".join(BARE))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--no-own-path", action="store_true", help="the captured graph alone, one export and not two")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout")
    wanted = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    busy = psutil.cpu_percent(3.0)
    print(f"{os.cpu_count()} cores, busy {busy:.0f} % before the measurement, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="small-diff-") as name:
        folder = Path(name)
        (folder / "model.py").write_text(MODEL)
        for platform in wanted.platforms:
            against = wanted.against and wanted.against.resolve()
            found, report = commands(folder, platform, wanted.runs, against, not wanted.no_own_path)
            print(f"\n{platform}, medians of {wanted.runs} runs")
            print_commands(found)
            for part, seconds in parts(folder, platform, wanted.runs, report).items():
                print(f"    {part:<44}{spread(seconds)}")
            for turn, seconds in session(platform, wanted.runs).items():
                print(f"  {f'session: {turn}':<46}{spread(seconds)}")
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
