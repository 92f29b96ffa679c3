"""Observes which algorithm computes each convolution on a GPU, in new processes (Figure 3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mindgap.graph import TensorStore
from mindgap.platforms.listing import platform_info
from mindgap.platforms.name import PlatformName, parse
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from mindgap_studies.machines.profiled_backend import approach
from mindgap_studies.machines.subjects.runnable import Runnable

_PLACE: Final = "mindgap_studies.machines.profiled_backend:CUDA"
#: Ways in which cuDNN chooses: its heuristics, and the fastest of a measurement as in the paper.
_CHOICES: Final = ("on", "benchmark")
_PROCESSES: Final = 10
#: The model that is observed, if it is among the subjects; else the first with a convolution.
_MODEL: Final = "resnet18-relu-max-trained/0"


def observed_algorithms(runnables: Sequence[Runnable], store: TensorStore) -> dict[str, Any]:
    """Returns, by platform, the approaches of each convolution in each process; or why there are none."""
    info = platform_info(parse("cuda/eager"))
    if not info.available:
        return {"cuda/eager": {"unavailable": info.reason}}
    with_convolutions = [r for r in runnables if any(".conv" in value.op for value in r.subject.values)]
    model = next((r for r in with_convolutions if r.subject.name == _MODEL), next(iter(with_convolutions), None))
    if model is None:
        return {"cuda/eager": {"unavailable": "no model has a convolution"}}
    return {
        f"cuda/eager@cudnn={choice}": processes(model, parse(f"{_PLACE}@cudnn={choice}"), _PROCESSES, store)
        for choice in _CHOICES
    }


def processes(model: Runnable, platform: PlatformName, count: int, store: TensorStore) -> dict[str, Any]:
    """Runs a model once in each of `count` new processes. Returns lists by process: `approaches` and `kernels` (of each
    convolution) and `outputs` (digests)."""
    found: dict[str, Any] = {"model": model.subject.name, "approaches": [], "kernels": [], "outputs": []}
    for _ in range(count):
        with WorkerPool([platform], tensors=store, busy=1) as pool:
            outcome = pool.run(Job(platform, model.graph, inputs=model.inputs))
        if not outcome.ran:
            return {"unavailable": " ".join(outcome.message.split())[:300]}
        kernels = outcome.facts["convolutions"]
        found["approaches"].append([approach(each) for each in kernels])
        found["kernels"].append(kernels)
        found["outputs"].append(outcome.outputs[0].digest)
    return found
