"""Measures how long a user waits for `mindgap diff` of a small model: `python benchmarks/small_diff.py [PLATFORM…]`.

    command  `mindgap diff FILE.py:make -p PLATFORM` of three layers, a new process each time    target: <= 4 s
    bare     a script that imports PyTorch, runs the model, converts it for the platform (`torch.jit.trace`, or
             `torch.onnx.export` and ONNX Runtime) and runs it there; also a new process
    session  each further `diff` in one `mindgap.Session`, of the same model and of a new one    target: <= 0.3 s

Medians of `--runs` runs, with the fastest and the slowest. Command and bare script alternate, so that other work on the
machine slows both alike. `parts` are measured one at a time, and in a command partly overlap: importing the command
line, starting each worker, opening the source and capturing it, running on the two platforms, judging.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

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
BARE = {"cpu/jit": BARE_JIT, "onnxruntime/cpu": BARE_ONNX}


def clocked(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def spread(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):6.2f} s  ({min(seconds):.2f} to {max(seconds):.2f})"


def process(folder: Path, *command: str) -> str:
    """Runs Python in the folder; returns its standard output. Status 1 is a finding, and fine."""
    done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stderr)
    return done.stdout


def commands(folder: Path, platform: str, runs: int) -> tuple[list[float], list[float], dict[str, Any]]:
    """Seconds of the command and of the bare script, and the last report."""
    diff = ("-m", "mindgap", "diff", "model.py:make", "-p", platform, "--json")
    report = json.loads(process(folder, *diff))
    (folder / "bare.py").write_text(BARE[platform])
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(runs):
        ours.append(clocked(lambda: process(folder, *diff)))
        bare.append(clocked(lambda: process(folder, "bare.py")))
    return ours, bare, report


def parts(folder: Path, platform: str, runs: int, report: dict[str, Any]) -> dict[str, list[float]]:
    """Seconds of the parts of a command, each alone."""
    from mindgap.graph import TensorStore
    from mindgap.run.pool import WorkerPool
    from mindgap.sources.client import SourceClient

    found: dict[str, list[float]] = {}

    def add(name: str, seconds: float) -> None:
        found.setdefault(name, []).append(seconds)

    for _ in range(runs):
        add("import the command line", clocked(lambda: process(folder, "-c", "import mindgap.cli")))
        for name in ("cpu/eager", platform):
            with WorkerPool([name]) as pool:
                add(f"start the worker of {name}", clocked(lambda pool=pool, name=name: pool.describe(name)))
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
    from mindgap.diff import Session

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
    wanted = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    busy = psutil.cpu_percent(3.0)
    print(f"{os.cpu_count()} cores, busy {busy:.0f} % before the measurement, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="small-diff-") as name:
        folder = Path(name)
        (folder / "model.py").write_text(MODEL)
        for platform in wanted.platforms:
            ours, bare, report = commands(folder, platform, wanted.runs)
            print(f"\n{platform}, medians of {wanted.runs} runs")
            print(f"  {'mindgap diff':<46}{spread(ours)}")
            print(f"  {'bare script':<46}{spread(bare)}")
            print(f"  {'ratio':<46}{statistics.median(ours) / statistics.median(bare):6.2f}")
            for part, seconds in parts(folder, platform, wanted.runs, report).items():
                print(f"    {part:<44}{spread(seconds)}")
            for turn, seconds in session(platform, wanted.runs).items():
                print(f"  {f'session: {turn}':<46}{spread(seconds)}")
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
