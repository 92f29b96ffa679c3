"""Keeps the memory of large models within bounds: one graph and one platform at a time, workers ended when done.

What several workers map counts once, so that a graph's stored tensors are in memory once, and one platform's own copies
of them beside. Small graphs run side by side.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Final

from mindgap.graph import Graph
from mindgap.run.fair_semaphore import FairSemaphore
from mindgap.run.pool import WorkerPool

#: A graph is large if its inputs, weights among them, take more bytes than this.
_LARGE_BYTES: Final = 256 << 20


#: Seconds for each second of a run in eager PyTorch, and for each GiB of weights that a platform loads: what
#: `benchmarks/real_size.py` measured at most, with room to spare.
_JUDGING: Final = 90.0
_LOADING: Final = 20.0


def output_bytes(graph: Graph) -> int:
    """Returns the bytes of all outputs and gradients."""
    specs = [graph.values[number] for number in (*graph.outputs, *graph.grad)]
    return sum(spec.nbytes for spec in specs if spec is not None)


def expected_seconds(graph: Graph, run_s: float, *, judged: bool) -> float:
    """Returns about how many seconds a platform takes. `run_s`: of one run of the graph in eager PyTorch."""
    loading = _LOADING * sum(given.spec.nbytes for given in graph.inputs) / 2**30
    return loading + (_JUDGING * run_s if judged else 0.0)


class Turns:
    """Lets small graphs run side by side, and a large one alone. Thread-safe."""

    def __init__(self, pool: WorkerPool, side_by_side: int) -> None:
        self._pool = pool
        self._count = side_by_side
        self._places = FairSemaphore(side_by_side)
        self._large = threading.Lock()

    @contextmanager
    def turn(self, graph: Graph) -> Generator[bool]:
        """Yields, when it is the graph's turn, whether it is alone."""
        if sum(given.spec.nbytes for given in graph.inputs) <= _LARGE_BYTES:
            with self._places:
                yield False
            return
        with ExitStack() as held:
            held.enter_context(self._large)
            for _ in range(self._count):
                held.enter_context(self._places)
            held.enter_context(self._pool.one_at_a_time())
            yield True
