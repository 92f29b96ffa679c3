"""Runs `find_precision` on cpu/eager in this process."""

from collections.abc import Sequence
from typing import Any

import torch

from mindgap.aten.functional import functionalize
from mindgap.graph import Array, TensorStore, materialise_all
from mindgap.graph_capture import capture
from mindgap.platforms.name import parse
from mindgap.platforms.pytorch.device.devices import CPU
from mindgap.platforms.pytorch.execution.eager_executable import EagerExecutable
from mindgap.run.outcome import Job, Outcome
from mindgap_diagnosis.precision.candidates import candidates
from mindgap_diagnosis.precision.finding import Bound, Precision, find_precision
from mindgap_diagnosis.precision.targets import GraphTarget


def target_of(model: torch.nn.Module, args: Sequence[Any], to: str, tensors: TensorStore) -> GraphTarget:
    graph = functionalize(capture(model.eval(), args, {}, tensors=tensors)).graph
    arrays = materialise_all(graph, tensors)

    def run(job: Job) -> Outcome:
        try:
            return Outcome(job.platform, "", "ok", arrays=tuple(_run(job, arrays)))
        except RuntimeError as error:
            return Outcome(job.platform, "", "runtime_error", message=str(error))

    return GraphTarget(graph, arrays, candidates(graph), to, parse("cpu/eager"), run, 60.0)


def _run(job: Job, arrays: Sequence[Array]) -> list[Array]:
    return EagerExecutable(job.graph, {}, CPU)(arrays)


def found(
    model: torch.nn.Module, args: Sequence[Any], tensors: TensorStore, to: str = "float16", bound: Bound | None = None
) -> Precision:
    return find_precision(target_of(model, args, to, tensors), bound or Bound(), "model")[0]
