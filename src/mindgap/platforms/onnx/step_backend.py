"""Makes a backend of one step between PyTorch and a runtime, to find the stage of a fault.

Such backends are not registered: workers find them by their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mindgap.graph import Graph
from mindgap.platforms import host
from mindgap.platforms.host_runtime import HostRuntime, Option
from mindgap.platforms.protocol import (
    INFERENCE_ONLY,
    Array,
    Executable,
    Options,
    Unsupported,
)

Load = Callable[[Graph, Sequence[Array], Options], Executable]


def step_backend(
    modules: Mapping[str, str], step: Load, choices: Mapping[str, Sequence[str]] | None = None,
    variables: Mapping[str, str] | None = None,
) -> HostRuntime:  # fmt: skip
    """Returns the backend of one step.

    `modules`: what it needs, as `host.available` takes it. `step`: makes the executable of a graph, its inputs and the
    options, each of which has a value. `choices`: the values of each option, the default first. `variables`: of the
    worker's environment.
    """
    options = [Option(name, "", tuple(values)) for name, values in (choices or {}).items()]
    return HostRuntime(modules, lambda given: _StepPlatform(modules, step, given), options, lambda _: variables or {})


@dataclass(frozen=True, slots=True)
class _StepPlatform:
    modules: Mapping[str, str]
    step: Load
    options: Options

    def describe(self) -> Mapping[str, Any]:
        return {"versions": dict(host.available(self.modules).versions), INFERENCE_ONLY: True}

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        """Raises `Unsupported` for a graph with gradients, and what the step raises."""
        if graph.grad:
            raise Unsupported("backward", "an exported program has no gradients")
        return self.step(graph, inputs, self.options)
