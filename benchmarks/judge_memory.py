"""Measures memory and CPU time of judging, compared with running.

Usage: `python benchmarks/judge_memory.py [MODEL …] [--pair PLATFORM] [--json FILE]`.

Six graphs of real size run on a platform that differs from the reference by rounding only. Each figure comes from a
separate process, so that its peak is its own:

    plain   the graph once on PyTorch, inputs made, values freed as they die     peak memory, CPU seconds of a run
    judged  what `mindgap diff` does in its own process, workers apart           peak memory, CPU seconds, the verdict

Target: judged <= 4 times plain in memory, <= 60 times in CPU seconds if everything is rounding.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import to_torch
from mindgap.graph import Graph, TensorStore, load, materialise_all, save
from mindgap.graph_capture import capture
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.results.settings import RunSettings
from mindgap.run.pool import WorkerPool
from mindgap.sources import capture_source
from mindgap.sources.libraries import declare_operators

REFERENCE = "cpu/eager"
#: Another code path of the same kernels: rounds otherwise, and is right.
OTHER = "cpu/eager@isa=default"


class UNet(nn.Module):
    """Three halvings and back, with skips that stay alive across the whole graph."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        sizes = [3, width, 2 * width, 4 * width, 8 * width]
        self.down = nn.ModuleList(self._block(a, b) for a, b in pairwise(sizes))
        self.up = nn.ModuleList(self._block(a + b, a) for a, b in zip(sizes[3:0:-1], sizes[4:1:-1], strict=True))
        self.head = nn.Conv2d(width, 2, 1)

    def _block(self, a: int, b: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.SiLU(),
                             nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.SiLU())  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skips: list[torch.Tensor] = []
        for depth, block in enumerate(self.down):
            x = block(x if depth == 0 else nn.functional.max_pool2d(x, 2))
            skips.append(x)
        skips.pop()
        for block in self.up:
            x = nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear")
            x = block(torch.cat([skips.pop(), x], 1))
        return self.head(x)


def zoo(source: str, backward: bool = False) -> Callable[[TensorStore], Graph]:
    def make(store: TensorStore) -> Graph:
        found = next(iter(capture_source(source, store, backward=backward)))[1]
        if not isinstance(found, Graph):
            raise SystemExit(f"{source}: {found.reason}")
        return found

    return make


def module(build: Callable[[], tuple[nn.Module, tuple[Any, ...]]]) -> Callable[[TensorStore], Graph]:
    def make(store: TensorStore) -> Graph:
        torch.manual_seed(0)
        program, args = build()
        return capture(program.eval(), args, tensors=store)

    return make


def gpt2() -> tuple[nn.Module, tuple[Any, ...]]:
    declare_operators()
    from transformers import GPT2Config, GPT2Model

    model = GPT2Model(GPT2Config(use_cache=False))
    return model, (torch.randint(50257, (1, 128)),)


def bert() -> tuple[nn.Module, tuple[Any, ...]]:
    declare_operators()
    from transformers import BertConfig, BertModel

    return BertModel(BertConfig()), (torch.randint(30522, (1, 128)),)


MODELS: dict[str, Callable[[TensorStore], Graph]] = {
    "resnet50": zoo("timm:resnet50?size=224"),
    "vit_b16": zoo("timm:vit_base_patch16_224"),
    "gpt2": module(gpt2),
    "bert": module(bert),
    "unet": module(lambda: (UNet(), (torch.randn(1, 3, 256, 256),))),
    "resnet18_backward": zoo("timm:resnet18?size=224", backward=True),
    "unet_small": module(lambda: (UNet(8), (torch.randn(1, 3, 32, 32),))),
}
#: What a run without arguments measures: models of real size.
REAL_SIZE = [name for name in MODELS if name != "unet_small"]


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def plain(path: Path, tensors: TensorStore) -> dict[str, Any]:
    graph = load(path)
    inputs = [to_torch(a, i.spec) for a, i in zip(materialise_all(graph, tensors), graph.inputs, strict=True)]
    tape = Tape(graph)
    with torch.no_grad():
        tape.run(inputs)
        started = time.process_time()
        tape.run(inputs)
    seconds = time.process_time() - started
    values = sum(s.nbytes for s in graph.values[len(graph.inputs) :] if s is not None)
    held = sum(i.spec.nbytes for i in graph.inputs)
    return {"nodes": len(graph.nodes), "inputs_mib": held >> 20, "values_mib": values >> 20, "peak_mib": peak_mib(),
            "cpu_s": seconds}  # fmt: skip


def judged(path: Path, tensors: TensorStore, platform: str) -> dict[str, Any]:
    graph = load(path)
    with WorkerPool([REFERENCE, platform], tensors=tensors, busy=1) as pool:
        comparison = GraphComparison(RunContext(pool.run, RunSettings(REFERENCE), tensors), path.stem, graph)
        started = time.process_time()
        row = comparison.row(platform)
        seconds = time.process_time() - started
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"verdict": row.word, "culprit": row.culprit.op if row.culprit else None, "detail": row.detail,
            "peak_mib": peak_mib(), "cpu_s": seconds, "workers_cpu_s": workers.ru_utime + workers.ru_stime}  # fmt: skip


def in_a_process(stage: str, path: Path, tensors: TensorStore, platform: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--stage", stage, "--graph", str(path), "--tensors", str(tensors.path),
               "--pair", platform]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{stage} of {path.stem}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=" ".join(MODELS))
    parser.add_argument("--pair", default=OTHER, help=f"the platform to judge (default {OTHER})")
    parser.add_argument("--keep", type=Path, help="keep captured graphs in this folder, and use those that are there")
    parser.add_argument("--json", type=Path, help="write every figure here")
    for hidden in ("--stage", "--graph", "--tensors"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.stage:
        path, tensors = Path(chosen.graph), TensorStore(chosen.tensors)
        torch.set_num_threads(1)
        if chosen.stage == "capture":
            save(MODELS[path.stem](tensors), path)
            print("{}")
        else:
            print(json.dumps(plain(path, tensors) if chosen.stage == "plain" else judged(path, tensors, chosen.pair)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        compare(chosen.models or REAL_SIZE, chosen.keep or Path(scratch), chosen.pair, chosen.json)


def compare(names: list[str], folder: Path, platform: str, out: Path | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tensors = TensorStore(folder / "tensors")
    found: dict[str, Any] = {}
    print(f"{'':18} {'nodes':>6} {'inputs':>7} {'values':>7} | {'plain':>6} {'judged':>7} MiB  {'×':>5} | "
          f"{'plain':>6} {'judged':>7} CPU s {'×':>5} | verdict")  # fmt: skip
    for name in names:
        path = folder / f"{name}.graph"
        if not path.is_file():
            in_a_process("capture", path, tensors, platform)
        a = in_a_process("plain", path, tensors, platform)
        b = in_a_process("judged", path, tensors, platform)
        found[name] = {"plain": a, "judged": b}
        print(f"{name:18} {a['nodes']:6} {a['inputs_mib']:7} {a['values_mib']:7} | {a['peak_mib']:6.0f} "
              f"{b['peak_mib']:7.0f}     {b['peak_mib'] / a['peak_mib']:6.1f} | {a['cpu_s']:6.2f} {b['cpu_s']:7.1f}"
              f"       {b['cpu_s'] / a['cpu_s']:5.0f} | {b['verdict']} {b['detail'][:90]}", flush=True)  # fmt: skip
    if out is not None:
        out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
