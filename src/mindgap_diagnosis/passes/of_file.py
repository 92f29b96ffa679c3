"""Names the optimizer of ONNX Runtime that changes what a model file computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mindgap.graph import Array
from mindgap.graph.compare.metrics import distance
from mindgap.own_path.runs import OwnRun
from mindgap.platforms.name import PlatformName
from mindgap.workflows.diff.subject import OwnProgram
from mindgap_diagnosis.passes.pass_lists import PASSES
from mindgap_diagnosis.passes.smallest_set import smallest_set

#: Outputs are right where they are so many times nearer to those without optimizers than the faulty ones.
_NEARER: Final = 8.0


def pass_of_file(program: OwnProgram, platform: PlatformName) -> str:
    """Returns the line that leaves out just the optimizers that bring the fault of a file; empty where none does.

    Without all of them the file must be nearer to the reference. A run decides each time, and the answer is run twice.
    """
    if platform.device_mode != "onnxruntime/cpu" or platform.options.get("without"):
        return ""
    passes = PASSES[platform.device_mode]
    names = passes.names(platform)
    faulty, plain = program.run(platform), _without(program, platform, names)
    if faulty is None or plain is None or plain.outputs is None:
        return ""
    if faulty.outputs is not None and _off(faulty, plain.eager) <= _NEARER * _off(plain, plain.eager):
        return ""
    most = None if faulty.outputs is None else _off(faulty, plain.outputs) / _NEARER

    def right(left_out: Sequence[str]) -> bool:
        run = _without(program, platform, left_out)
        return run is not None and run.outputs is not None and (most is None or _off(run, plain.outputs or ()) <= most)

    chosen = smallest_set(names, right)
    return passes.line(chosen) if right(chosen) else ""


def _without(program: OwnProgram, platform: PlatformName, names: Sequence[str]) -> OwnRun | None:
    return program.run(platform.with_options(without="+".join(names)))


def _off(run: OwnRun, others: Sequence[Array]) -> float:
    return distance(run.outputs or (), others)
