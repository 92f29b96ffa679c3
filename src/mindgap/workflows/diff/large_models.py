"""Keeps the memory of large models within bounds: one graph and one platform at a time, workers ended when done.

All workers map the same stored tensors, so these are in memory once, besides the copies that one platform makes. Small
graphs run side by side.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Final

from mindgap.graph import Graph
from mindgap.graph.sizes import input_bytes
from mindgap.run.fair_semaphore import FairSemaphore
from mindgap.run.pool import WorkerPool

#: A graph is large if its inputs, weights among them, take more bytes than this.
_LARGE_BYTES: Final = 256 << 20
#: Seconds of judging outputs that differ by rounding: for each GiB of weights, for each second of a run in eager
#: PyTorch, and for each million elements of outputs (`benchmarks/real_size.py`).
_JUDGING_WEIGHTS: Final = 2.0
_JUDGING_RUN: Final = 15.0
_JUDGING_OUTPUTS: Final = 1.0
#: Seconds of loading for each GiB of weights.
_LOADING: Final = 20.0
#: Seconds for each GiB of weights of capturing and of the reference's runs, and of judging while a run's length is not
#: known: the processor time of decoders of 0.4 and 1.1 billion parameters on 16 tokens, on one core.
_CAPTURING: Final = 20.0
_JUDGING_UNSEEN: Final = 25.0


def expected_seconds(graph: Graph, run_s: float, *, judged: bool) -> float:
    """Returns about how many seconds a platform takes whose outputs differ by rounding. `run_s`: of one run of the
    graph in eager PyTorch."""
    gib = input_bytes(graph) / 2**30
    if not judged:
        return _LOADING * gib
    outputs = sum(spec.numel for number in graph.outputs if (spec := graph.values[number]) is not None) / 1e6
    return (_LOADING + _JUDGING_WEIGHTS) * gib + _JUDGING_RUN * run_s + _JUDGING_OUTPUTS * outputs


def expected_before_capture(weights: int, platforms: int, *, judged: bool) -> str:
    """Returns about how long a model takes on so many platforms, by the bytes of its weights alone; empty for a model
    that is not large."""
    if weights <= _LARGE_BYTES:
        return ""
    each, gib = _LOADING + (_JUDGING_UNSEEN if judged else 0.0), weights / 2**30
    minutes = (_CAPTURING + platforms * each) * gib / 60
    return f"weights of {gib:.1f} GiB: about {max(minutes, 1):.0f} min expected, with the capture"


def is_large(graph: Graph) -> bool:
    """Returns whether the graph runs alone."""
    return input_bytes(graph) > _LARGE_BYTES


class LargeGraphGate:
    """Lets small graphs run side by side, and a large one alone. Thread-safe."""

    def __init__(self, pool: WorkerPool, side_by_side: int) -> None:
        self._pool = pool
        self._count = side_by_side
        self._places = FairSemaphore(side_by_side)
        self._large = threading.Lock()

    @contextmanager
    def turn(self, graph: Graph) -> Generator[bool]:
        """Yields, when it is the graph's turn, whether it is alone."""
        if not is_large(graph):
            with self._places:
                yield False
            return
        with ExitStack() as held:
            held.enter_context(self._large)
            for _ in range(self._count):
                held.enter_context(self._places)
            held.enter_context(self._pool.one_at_a_time())
            yield True
