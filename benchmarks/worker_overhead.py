r"""Measures the cost of a job compared with the bare backend: `python benchmarks/worker_overhead.py [PLATFORM]`.

Three cases are measured, each in one run. Bare calls and jobs alternate, so that a busy machine slows both alike. A job
runs its graph twice (the default), and digests and sketches the outputs. "Bare" is the same number of calls of the
platform's executable in this process, with prepared inputs.

    warm    a loaded graph of 22 nodes with inputs of 4 KiB at most     target: <= 1 ms a job
    fresh   a 22-node graph that the worker has never seen: encode,
            send, decode, validate, materialise, load, run, digest      target: <= 4 ms a job
    heavy   a loaded graph that takes about 10 ms, inputs cached        target: <= 5 % over bare

Two checkouts: `python benchmarks/paired.py ../OLD . --figure REGEX -- benchmarks/worker_overhead.py`, where REGEX is
'^heavy.* ([+-][\d.]+) %  <=' for the overhead in CPU time, '^warm.* ([\d.]+) ms  <=' and '^fresh.* ([\d.]+) ms  <='.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import psutil

from mindgap.graph import Graph, Input, Node, Normal, Ref, TensorSpec, materialise_all
from mindgap.platforms.protocol import Platform
from mindgap.platforms.registry import find
from mindgap.run.outcome import Job, Outcome
from mindgap.run.pool import WorkerPool

#: One round of the 22-node graph: these unary operators after a product and a sum.
_UNARY = ("relu", "tanh", "sigmoid", "exp", "neg", "sin", "cos", "abs", "rsqrt")


def perceptron(seed: int, width: int, rounds: int, unary: tuple[str, ...], rows: int) -> Graph:
    """`rounds` times a matrix product, an added bias, and the unary operators; weights are parameters."""
    square, row, batch = (TensorSpec.contiguous("float32", s) for s in ((width, width), (width,), (rows, width)))
    inputs = [Input(batch, Normal(seed))]
    nodes: list[Node] = []
    value = Ref(0)
    first = 1 + 2 * rounds
    for turn in range(rounds):
        inputs.append(Input(square, Normal(seed + 2 * turn + 1, std=width**-0.5), "parameter"))
        inputs.append(Input(row, Normal(seed + 2 * turn + 2), "parameter"))
        nodes.append(Node("aten.mm.default", (value, Ref(1 + 2 * turn)), (), (batch,)))
        nodes.append(Node("aten.add.Tensor", (Ref(first + len(nodes) - 1), Ref(2 + 2 * turn)), (), (batch,)))
        for name in unary:
            nodes.append(Node(f"aten.{name}.default", (Ref(first + len(nodes) - 1),), (), (batch,)))
        value = Ref(first + len(nodes) - 1)
    return Graph(tuple(inputs), tuple(nodes), (value.index,))


def small(seed: int, width: int = 16) -> Graph:
    return perceptron(seed, width, 2, _UNARY, rows=8)


def clocked(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def bare_call(platform: Platform, graph: Graph) -> Callable[[], object]:
    """The executable called twice, as a job does."""
    inputs = materialise_all(graph)
    executable = platform.load(graph, inputs)
    executable(inputs)

    def twice() -> None:
        executable(inputs)
        executable(inputs)

    return twice


@dataclass
class Series:
    """Seconds of each turn: bare calls, jobs, and the executable's calls inside those jobs; and CPU seconds in all."""

    bare: list[float] = field(default_factory=list)
    job: list[float] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)
    bare_cpu: float = 0.0
    job_cpu: float = 0.0


def taking_turns(pool: WorkerPool, name: str, turns: Iterable[tuple[Callable[[], object], Graph]]) -> Series:
    """Each turn: the bare call, then the job. The worker's CPU time counts whole: it sleeps while others call."""
    found = Series()
    worker = psutil.Process(pool.pids()[name])
    before = sum(worker.cpu_times()[:2])
    for bare, graph in turns:
        cpu = time.process_time()
        found.bare.append(clocked(bare))
        found.bare_cpu += time.process_time() - cpu
        cpu, started = time.process_time(), time.perf_counter()
        outcome = ran(pool.run(Job(name, graph)))
        found.job.append(time.perf_counter() - started)
        found.job_cpu += time.process_time() - cpu
        found.calls.append(outcome.timings["run"] + outcome.timings["second_run"])
    found.job_cpu += sum(worker.cpu_times()[:2]) - before
    return found


def warm(pool: WorkerPool, name: str, platform: Platform, graph: Graph, turns: int) -> Series:
    bare = bare_call(platform, graph)
    ran(pool.run(Job(name, graph)))
    return taking_turns(pool, name, ((bare, graph) for _ in range(turns)))


def fresh(pool: WorkerPool, name: str, platform: Platform, turns: int) -> Series:
    """Graphs that are new to both sides; the bare side gets executable and inputs ready made."""
    graphs = [small(1000 * turn, width=64) for turn in range(turns)]
    return taking_turns(pool, name, ((bare_call(platform, graph), graph) for graph in graphs))


def ran(outcome: Outcome) -> Outcome:
    if outcome.status != "ok":
        sys.exit(f"{outcome.status}: {outcome.message}")
    return outcome


def ten_milliseconds(platform: Platform) -> Graph:
    """A graph of wide layers that takes 8 to 16 ms of CPU time a call here."""
    for rounds in (1, 2, 4, 8, 16, 32):
        graph = perceptron(7, 512, rounds, ("relu",), rows=256)
        bare = bare_call(platform, graph)
        cpu = time.process_time()
        for _ in range(5):
            bare()
        if (time.process_time() - cpu) / 10 > 0.008:
            return graph
    return graph


def row(case: str, found: Series, wanted: str, value: Callable[[float, float], str]) -> None:
    """Medians; the tenth percentile, which other work on the machine touches less; CPU time, which it touches least."""
    turns = len(found.job)
    cells = ""
    for bare, job in (
        (statistics.median(found.bare), statistics.median(found.job)),
        (float(np.percentile(found.bare, 10)), float(np.percentile(found.job, 10))),
        (found.bare_cpu / turns, found.job_cpu / turns),
    ):
        cells += f"{bare * 1e3:>9.3f}{job * 1e3:>9.3f}{value(bare, job):>9}  "
    print(f"{case:<6}{cells}{wanted}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("platform", nargs="?", default="cpu/eager@threads=1")
    parser.add_argument("--turns", type=int, default=200)
    arguments = parser.parse_args()
    name: str = arguments.platform
    backend, options = find(name)
    os.environ.update(backend.environment(options))
    platform = backend.open(options)
    print(f"{name}, {arguments.turns} turns; bare and job each run the graph twice; milliseconds")
    print(f"{'':<6}{'median of wall time':^27}  {'tenth percentile':^27}  {'CPU time':^27}")
    print(f"{'':<6}" + f"{'bare':>9}{'job':>9}{'result':>9}  " * 3 + "wanted")
    with WorkerPool([name]) as pool:
        pool.run(Job(name, small(1)))
        turns: int = arguments.turns
        row("warm", warm(pool, name, platform, small(1), turns), "<= 1 ms a job", milliseconds)
        row("fresh", fresh(pool, name, platform, turns), "<= 4 ms a job", milliseconds)
        heavy = warm(pool, name, platform, ten_milliseconds(platform), max(20, turns // 5))
        row("heavy", heavy, "<= 5 % over bare", lambda bare, job: f"{100 * (job / bare - 1):+.1f} %")
        inside = statistics.median(job / calls for job, calls in zip(heavy.job, heavy.calls, strict=True))
        print(f"heavy jobs over the calls inside the same jobs, median: {100 * (inside - 1):+.1f} %")


def milliseconds(bare: float, job: float) -> str:
    return f"{job * 1e3:.2f} ms"


if __name__ == "__main__":
    main()
