"""Measures how long a user waits for `mindgap diff` of a small model: `python benchmarks/small_diff.py [PLATFORM…]`.

    python benchmarks/small_diff.py cpu/inductor onnxruntime/cpu openvino/cpu --model decoder --together

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
`--model decoder` is one step of a decoder with a filled cache. `--together` measures one command with all platforms
beside their bare scripts one after the other    target: 1.3 times their processor seconds.
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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
from paired import python_of

LAYERS = """
import torch

def make(seed=0):
    torch.manual_seed(seed)
    layers = torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 10)
    return torch.nn.Sequential(*layers).eval(), (torch.randn(8, 64),)
"""
DECODER = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm, self.q, self.kv = nn.LayerNorm(size), nn.Linear(size, size), nn.Linear(size, 2 * size)
        self.out, self.up, self.down = nn.Linear(size, size), nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, h, keys, values):
        n = self.norm(h)
        k, v = self.kv(n).chunk(2, -1)
        keys, values = torch.cat([keys, k], 1), torch.cat([values, v], 1)
        h = h + self.out(torch.softmax(self.q(n) @ keys.mT / 5.7, -1) @ values)
        return h + self.down(nn.functional.gelu(self.up(h))), keys, values

class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.blocks = nn.Embedding(64, 32), nn.ModuleList([Block(32), Block(32)])
        self.head = nn.Linear(32, 64)

    def forward(self, token, cache):
        h, grown = self.embedding(token), []
        for block, (k, v) in zip(self.blocks, cache):
            h, k, v = block(h, k, v)
            grown.append((k, v))
        return self.head(h), grown

def make(seed=0):
    torch.manual_seed(seed)
    return Decoder().eval(), (torch.tensor([[3]]), [(torch.randn(1, 5, 32), torch.randn(1, 5, 32)) for _ in range(2)])
"""
MODELS = {"layers": LAYERS, "decoder": DECODER}
_BEFORE = """
import numpy, torch
from torch.utils._pytree import tree_leaves
from model import make
model, args = make()
with torch.no_grad():
    expected = model(*args)
"""
_AFTER = """
print(max(float(abs(a.numpy() - numpy.asarray(b)).max()) for a, b in zip(tree_leaves(expected), tree_leaves(found))))
"""
_WAYS = {
    "cpu/jit": """
with torch.no_grad():
    traced = torch.jit.trace(model, args)
    for _ in range(3):
        found = traced(*args)
""",
    "onnxruntime/cpu": """
import onnxruntime
program = torch.onnx.export(model, args, dynamo=True, verbose=False)
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
found = session.run(None, {i.name: t.numpy() for i, t in zip(session.get_inputs(), tree_leaves(args))})
""",
    "openvino/cpu": """
import openvino
compiled = openvino.compile_model(openvino.convert_model(torch.export.export(model, args)), "CPU")
found = [*compiled([t.numpy() for t in tree_leaves(args)]).values()]
""",
    "cpu/inductor": """
with torch.no_grad():
    found = torch.compile(model)(*args)
""",
}
BARE = {platform: f"{_BEFORE}{way}{_AFTER}" for platform, way in _WAYS.items()}


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
    folder: Path, platforms: Sequence[str], runs: int, against: Path | None, own_path: bool
) -> tuple[dict[str, list[tuple[float, float]]], dict[str, Any]]:
    """Seconds and processor seconds of the command, of the bare script and of another checkout; a report."""
    diff = (
        "-m",
        "mindgap",
        "diff",
        "model.py:make",
        *(part for each in platforms for part in ("-p", each)),
        "--json",
        *([] if own_path else ["--no-own-path"]),
    )
    report = json.loads(process(folder, *diff))
    scripts = [f"bare{number}.py" for number in range(len(platforms))]
    for script, platform in zip(scripts, platforms, strict=True):
        (folder / script).write_text(BARE[platform])

    def bare() -> None:
        for script in scripts:
            process(folder, script)

    calls: dict[str, Callable[[], object]] = {"mindgap diff": lambda: process(folder, *diff), "bare script": bare}
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
    from mindgap.run.pool import WorkerPool
    from mindgap.source_worker.client import SourceClient

    found: dict[str, list[float]] = {}

    def add(name: str, seconds: float) -> None:
        found.setdefault(name, []).append(seconds)

    for _ in range(runs):
        add("import the command line", clocked(lambda: process(folder, "-c", "import mindgap.cli.diff")))
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


def session(platform: str, runs: int, model: str) -> dict[str, list[float]]:
    """Seconds of the comparisons in one session."""
    from mindgap.workflows.diff import Session

    scope: dict[str, Any] = {}
    exec(MODELS[model], scope)
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
    parser.add_argument("--model", choices=[*MODELS], default="layers")
    parser.add_argument("--together", action="store_true", help="one command with all platforms, and nothing else")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout")
    wanted = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    busy = psutil.cpu_percent(3.0)
    print(f"{os.cpu_count()} cores, busy {busy:.0f} % before the measurement, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory(prefix="small-diff-") as name:
        folder = Path(name)
        (folder / "model.py").write_text(MODELS[wanted.model])
        against = wanted.against and wanted.against.resolve()
        if wanted.together:
            print(f"\n{' '.join(wanted.platforms)}, medians of {wanted.runs} runs")
            print_commands(commands(folder, wanted.platforms, wanted.runs, against, not wanted.no_own_path)[0])
        for platform in [] if wanted.together else wanted.platforms:
            found, report = commands(folder, [platform], wanted.runs, against, not wanted.no_own_path)
            print(f"\n{platform}, medians of {wanted.runs} runs")
            print_commands(found)
            for part, seconds in parts(folder, platform, wanted.runs, report).items():
                print(f"    {part:<44}{spread(seconds)}")
            for turn, seconds in session(platform, wanted.runs, wanted.model).items():
                print(f"  {f'session: {turn}':<46}{spread(seconds)}")
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
