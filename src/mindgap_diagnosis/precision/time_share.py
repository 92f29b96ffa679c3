"""Measures what share of a model's time some of its operators take."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any, Final

import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import input_tensors
from mindgap.graph import Array, Graph
from mindgap.judge.oracle.evaluation.float64 import OPERATOR_ERRORS

#: Of each node the fastest run counts: the first pays for what happens once, others for what else the machine does.
_RUNS: Final = 4


def time_share(graph: Graph, inputs: Sequence[Array], nodes: Collection[int]) -> float | None:
    """Returns the share (0 to 1) of `nodes` in the time of all nodes, run one by one by eager PyTorch on this processor
    in the graph's dtypes; None where it does not run them. `graph`: functional; `inputs`: numpy, all of them."""
    seconds = [float("inf")] * len(graph.nodes)

    def timed(index: int, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        begin = time.perf_counter()
        result = function(*args, **kwargs)
        seconds[index] = min(seconds[index], time.perf_counter() - begin)
        return result

    tape = Tape(graph)
    try:
        with torch.no_grad():
            for _ in range(_RUNS):
                tape.run(input_tensors(graph, inputs), call=timed)
    except OPERATOR_ERRORS:
        return None
    return sum(seconds[index] for index in nodes) / (sum(seconds) or 1.0)
