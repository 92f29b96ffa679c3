"""Estimates the memory that a graph needs on a platform, before anything runs it."""

from __future__ import annotations

from typing import Final

from mindgap.aten.functional import functionalize
from mindgap.graph import Graph, GraphError
from mindgap.graph.sizes import half_share, input_bytes, output_bytes
from mindgap.judge.oracle.shadows.segments import needed_bytes as judging_bytes, segments
from mindgap.run.system import memory_bytes

_GIB: Final = 1 << 30
#: Processes without a graph: the command, the reference's worker, a platform's.
_PROCESSES: Final = _GIB
#: Copies of the outputs: two runs of a worker, and both sides where they are compared.
_OUTPUTS: Final = 4


class MemoryEstimate:
    """What a graph needs. All processes map the same weights, and a large graph's platform has ended when it is judged.

    `inputs`: bytes of all inputs, weights among them. `outputs`: of all outputs and gradients. `judging`: bytes that
    the judge takes for itself, where outputs differ at all. Values between inputs and outputs are not counted.
    """

    def __init__(self, graph: Graph) -> None:
        self.inputs, self.outputs = input_bytes(graph), output_bytes(graph)
        self._narrow = half_share(graph) > 0.5
        try:
            functional = functionalize(graph).graph
        except (GraphError, RuntimeError):
            # It is not judged value by value.
            self.judging = 0
        else:
            self.judging, _ = judging_bytes(functional, segments(functional), frozenset(functional.outputs))

    def on(self, copies: float) -> int:
        """Returns about how many bytes a run takes on a platform that makes so many copies of the weights."""
        return _PROCESSES + int(self.inputs * (1 + copies)) + _OUTPUTS * self.outputs

    def judged(self) -> int:
        """Returns about how many bytes it takes to judge a difference, with no copy of the weights."""
        return self.on(0) + self.judging

    def too_large(self, copies: float) -> str | None:
        """Returns why the graph cannot run on such a platform, and what to do; None where it fits into memory.

        The judge refuses for itself: outputs of the same bits need none.
        """
        needed, there = self.on(copies), memory_bytes()
        if needed <= there:
            return None
        smaller = " or a smaller input" if self._narrow else ", a smaller input, or the model in bfloat16"
        return (
            f"it takes about {needed / _GIB:.1f} GiB of memory, and the machine has {there / _GIB:.1f}: compare a "
            f"submodule (--inside layers.0){smaller}"
        )
