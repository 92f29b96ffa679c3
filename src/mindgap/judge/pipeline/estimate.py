"""Estimates the memory that a graph needs on a platform, before anything runs it."""

from __future__ import annotations

from typing import Final

from mindgap.aten.functional import functionalize
from mindgap.graph import Graph, GraphError
from mindgap.graph.sizes import input_bytes, output_bytes
from mindgap.judge.oracle.shadows.segments import needed_bytes as judging_bytes, segments
from mindgap.run.system import memory_bytes

_GIB: Final = 1 << 30
#: Processes without a graph: the command, the reference's worker, a platform's.
_PROCESSES: Final = _GIB
#: Copies of the outputs: two runs of a worker, and both sides where they are compared.
_OUTPUTS: Final = 4


class MemoryEstimate:
    """What a graph needs. All processes map the same weights; the judge works while the platform waits.

    `inputs`: bytes of all inputs, weights among them. `outputs`: of all outputs and gradients. `judging`: bytes that
    the judge takes for itself. Values between inputs and outputs are not counted.
    """

    def __init__(self, graph: Graph) -> None:
        self.inputs, self.outputs = input_bytes(graph), output_bytes(graph)
        try:
            functional = functionalize(graph).graph
        except (GraphError, RuntimeError):
            # It is not judged value by value.
            self.judging = 0
        else:
            self.judging, _ = judging_bytes(functional, segments(functional), frozenset(functional.outputs))

    def on(self, copies: float) -> int:
        """Returns about how many bytes it takes with a platform that makes so many copies of the weights."""
        return _PROCESSES + int(self.inputs * (1 + copies)) + _OUTPUTS * self.outputs + self.judging

    def too_large(self, copies: float) -> str | None:
        """Returns why the graph cannot run on such a platform, and what to do; None where it fits into memory."""
        needed, there = self.on(copies), memory_bytes()
        if needed <= there:
            return None
        return (
            f"it takes about {needed / _GIB:.1f} GiB of memory, and the machine has {there / _GIB:.1f}: compare a "
            "submodule (--inside layers.0), a smaller input, or the model in bfloat16"
        )
