"""Names the optimizer of ONNX Runtime that changes what a model file computes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mindgap.graph.compare.metrics import distance
from mindgap.own_path.own_program import OwnProgram
from mindgap.own_path.runs import OwnRun
from mindgap.platforms.name import PlatformName
from mindgap_diagnosis.passes.at_fault import WITHOUT, smallest_set
from mindgap_diagnosis.passes.pass_lists import PASSES

#: Outputs are right where they are so many times nearer to those without optimizers than the faulty ones.
_NEARER: Final = 8.0


def pass_of_file(program: OwnProgram, platform: PlatformName) -> str:
    """Returns the line that leaves out just the optimizers that bring the fault of a file; empty where
    none does. Without all of them the file must be nearer to the reference. The answer is run twice."""
    if platform.device_mode != "onnxruntime/cpu" or platform.options.get(WITHOUT):
        return ""

    def without(left_out: Sequence[str]) -> OwnRun | None:
        return program.run(platform.with_options(**{WITHOUT: "+".join(left_out)}))

    passes = PASSES[platform.device_mode]
    names = passes.names(platform)
    faulty, plain = program.run(platform), without(names)
    if faulty is None or plain is None or plain.outputs is None:
        return ""
    wrong, wanted = faulty.outputs, plain.outputs
    if wrong is not None and distance(wrong, plain.eager) <= _NEARER * distance(wanted, plain.eager):
        return ""

    def right(left_out: Sequence[str]) -> bool:
        outputs = None if (run := without(left_out)) is None else run.outputs
        if outputs is None or wrong is None:
            return outputs is not None
        return distance(outputs, wanted) <= distance(wrong, wanted) / _NEARER

    chosen = smallest_set(names, right)
    return passes.line(chosen) if right(chosen) else ""
