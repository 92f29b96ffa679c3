"""Measures what a platform on a host costs beside one of this machine: `python benchmarks/host_cost.py [--jobs N]`.

The host is `python -m mindgap worker` on this machine, over pipes: no network, so that its seconds are the cost of the
protocol alone. Bytes are those of jobs, as they would cross the network (without ssh's own).

    start    seconds from nothing to the first outcome
    job      milliseconds of one job of a graph that the worker has loaded; median, with the fastest and the slowest
    bytes    sent / received for the first job of a graph; for the second, in a new process, while tensors are kept
             there; and then for a whole row of `diff`, with whole outputs and the judge's jobs

`--command` measures another host, such as `ssh HOST python3 -m mindgap worker`.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

import mindgap
from mindgap.graph import Graph, TensorStore, stored_keys
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.platforms.name import CPU_EAGER, PlatformName, parse
from mindgap.results.settings import RunSettings
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool


def subjects(tensors: TensorStore) -> Iterator[tuple[str, Graph]]:
    """Three graphs: without tensors beside it, with 2 MB of them, with 47 MB."""
    torch.manual_seed(0)
    for name, width, depth in (("small", 32, 2), ("medium", 512, 2), ("large", 1536, 5)):
        layers = [torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.GELU()) for _ in range(depth)]
        yield name, mindgap.capture(torch.nn.Sequential(*layers).eval(), (torch.randn(8, width),), tensors=tensors)


def milliseconds(pool: WorkerPool, platform: PlatformName, graph: Graph, count: int) -> str:
    taken: list[float] = []
    for _ in range(count):
        started = time.perf_counter()
        pool.run(Job(platform, graph, repeat=1))
        taken.append(1000 * (time.perf_counter() - started))
    return f"{statistics.median(taken):.2f} ms ({min(taken):.2f} to {max(taken):.2f})"


def row_bytes(pool: WorkerPool, platform: PlatformName, graph: Graph, tensors: TensorStore) -> tuple[int, int]:
    before = pool.traffic(platform)
    context = RunContext(pool.run, RunSettings(), tensors, pool.describe)
    row = GraphComparison(context, "a graph", graph).row(platform)
    assert row.verdict in ("identical", "rounding"), row.detail
    after = pool.traffic(platform)
    return after[0] - before[0], after[1] - before[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=50)
    parser.add_argument("--platform", default="cpu/eager@isa=default")
    parser.add_argument("--command", help="of the host; by default one on this machine with an empty home")
    arguments = parser.parse_args()
    here = parse(arguments.platform)
    there = here.with_options(host="measured")
    with tempfile.TemporaryDirectory() as folder:
        tensors = TensorStore(Path(folder, "tensors"))
        graphs = list(subjects(tensors))
        own = f"env MINDGAP_HOME={shlex.quote(folder)}/home {shlex.quote(sys.executable)} -m mindgap worker"
        command = json.dumps(arguments.command or own)
        Path(folder, "mindgap.toml").write_text(f"[hosts.measured]\ncommand = {command}\n")
        os.chdir(folder)
        print(f"{'graph':8}{'tensors':>12}{'1st job':>22}{'2nd job':>22}{'row':>22}")
        for name, graph in graphs:
            found: list[tuple[int, int]] = []
            for _ in range(2):
                with WorkerPool([there], tensors=tensors) as pool:
                    pool.run(Job(there, graph, repeat=1))
                    found.append(pool.traffic(there))
            with WorkerPool([CPU_EAGER, there], tensors=tensors) as pool:
                found.append(row_bytes(pool, there, graph, tensors))
            held = sum(tensors.file(key).stat().st_size for key in stored_keys(graph))
            numbers = "".join(f"{f'{sent:,} / {received:,}':>22}" for sent, received in found)
            print(f"{name:8}{held:>12,}{numbers}")
        for platform in (here, there):
            with WorkerPool([platform], tensors=tensors, forks=False) as pool:
                started = time.perf_counter()
                pool.run(Job(platform, graphs[0][1], repeat=1))
                print(f"start  {platform}: {time.perf_counter() - started:.2f} s")
                for name, graph in graphs:
                    pool.run(Job(platform, graph, repeat=1))
                    print(f"job    {platform}: {name}: {milliseconds(pool, platform, graph, arguments.jobs)}")


if __name__ == "__main__":
    main()
