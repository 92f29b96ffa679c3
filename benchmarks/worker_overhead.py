"""What a job costs over the bare backend: `python benchmarks/worker_overhead.py [PLATFORM]`.

Three cases, each measured in one run, bare calls and jobs taking turns, so that a busy machine slows
both alike. A job runs its graph twice (the default) and digests and sketches what comes out; "bare"
is the same number of calls of the platform's executable in this process, inputs at hand.

    warm    a loaded graph of 22 nodes with inputs of 4 KiB at most     wanted: <= 1 ms a job
    fresh   a 22-node graph that the worker has never seen: encode,
            send, decode, validate, materialise, load, run, digest      wanted: <= 4 ms a job
    heavy   a loaded graph that takes about 10 ms, inputs cached        wanted: <= 5 % over bare
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

from mindgap.graph import Graph, Input, Node, Normal, Ref, TensorSpec, materialise_all
from mindgap.platforms.protocol import Platform
from mindgap.run.opening import find_backend
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


def taking_turns(pool: WorkerPool, name: str, platform: Platform, graph: Graph, turns: int) -> tuple[list[float], ...]:
    """Seconds of bare calls, of jobs, and of the executable's calls inside those jobs."""
    bare = bare_call(platform, graph)
    job = Job(name, graph)
    ran(pool.run(job))
    found: tuple[list[float], ...] = ([], [], [])
    for _ in range(turns):
        found[0].append(clocked(bare))
        started = time.perf_counter()
        outcome = ran(pool.run(job))
        found[1].append(time.perf_counter() - started)
        found[2].append(outcome.timings["run"] + outcome.timings["second_run"])
    return found


def fresh_jobs(pool: WorkerPool, name: str, platform: Platform, turns: int) -> tuple[list[float], ...]:
    """The same for graphs that are new to both sides; the bare side gets graph and inputs ready made."""
    found: tuple[list[float], ...] = ([], [], [])
    graphs: Iterator[Graph] = (small(1000 * turn, width=64) for turn in range(1, turns + 6))
    for _ in range(5):
        ran(pool.run(Job(name, next(graphs))))
    for graph in graphs:
        found[0].append(clocked(bare_call(platform, graph)))
        started = time.perf_counter()
        outcome = ran(pool.run(Job(name, graph)))
        found[1].append(time.perf_counter() - started)
        found[2].append(outcome.timings["run"] + outcome.timings["second_run"])
    return found


def ran(outcome: Outcome) -> Outcome:
    if outcome.status != "ok":
        sys.exit(f"{outcome.status}: {outcome.message}")
    return outcome


def ten_milliseconds(platform: Platform) -> Graph:
    """A graph of wide layers that takes 8 to 16 ms a call here."""
    for rounds in (1, 2, 4, 8, 16, 32):
        graph = perceptron(7, 512, rounds, ("relu",), rows=256)
        bare = bare_call(platform, graph)
        if min(clocked(bare) for _ in range(5)) / 2 > 0.008:
            return graph
    return graph


def row(case: str, found: tuple[list[float], ...], wanted: str, value: Callable[[float, float], str]) -> None:
    bare, job, inside = (statistics.median(series) for series in found)
    p90 = float(np.percentile(found[1], 90))
    print(f"{case:<7}{bare * 1e3:>10.3f}{job * 1e3:>10.3f}{p90 * 1e3:>10.3f}{inside * 1e3:>12.3f}   "
          f"{value(bare, job):<18}{wanted}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("platform", nargs="?", default="cpu/eager@threads=1")
    parser.add_argument("--turns", type=int, default=200)
    arguments = parser.parse_args()
    name: str = arguments.platform
    backend, options = find_backend(name)
    os.environ.update(backend.environment(options))
    platform = backend.open(options)
    print(f"{name}: medians in ms over {arguments.turns} turns; bare and job each run the graph twice")
    print(f"{'case':<7}{'bare':>10}{'job':>10}{'job p90':>10}{'calls in job':>13}  {'result':<18}wanted")
    with WorkerPool([name]) as pool:
        warm = taking_turns(pool, name, platform, small(1), arguments.turns)
        row("warm", warm, "<= 1 ms a job", lambda bare, job: f"{job * 1e3:.2f} ms")
        row("fresh", fresh_jobs(pool, name, platform, arguments.turns), "<= 4 ms a job",
            lambda bare, job: f"{job * 1e3:.2f} ms")  # fmt: skip
        heavy = taking_turns(pool, name, platform, ten_milliseconds(platform), max(20, arguments.turns // 5))
        row("heavy", heavy, "<= 5 % over bare", lambda bare, job: f"{100 * (job / bare - 1):+.1f} % over bare")
        inside = statistics.median(j / c for j, c in zip(heavy[1], heavy[2], strict=True))
        print(f"heavy, against the calls inside the same jobs: {100 * (inside - 1):+.1f} %")


if __name__ == "__main__":
    main()
