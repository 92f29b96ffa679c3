"""Makes a backend of one step between PyTorch and a runtime, to find the stage of a fault.

Such backends are not registered: workers find them by their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mindgap.graph import Graph
from mindgap.platforms.onnx import host
from mindgap.platforms.protocol import (
    INFERENCE_ONLY,
    Array,
    Availability,
    Executable,
    Options,
    Platform,
    Unsupported,
)


@dataclass(frozen=True, slots=True)
class StepBackend:
    """One step as a backend.

    `modules`: what it needs, as `host.available` takes it. `step`: makes the executable of a graph, its inputs and the
    options, each of which has a value. `choices`: the values of each option, the default first. `variables`: of the
    worker's environment.
    """

    modules: Mapping[str, str]
    step: Callable[[Graph, Sequence[Array], Options], Executable]
    choices: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def options(self) -> Mapping[str, str]:
        return {name: "|".join(values) for name, values in self.choices.items()}

    def probe(self) -> Availability:
        return host.available(self.modules)

    def environment(self, options: Options) -> Mapping[str, str]:
        host.reject_unknown(options, self.options)
        self._chosen(options)
        return dict(self.variables)

    def open(self, options: Options) -> Platform:
        return _StepPlatform(self, self._chosen(options))

    def _chosen(self, options: Options) -> dict[str, str]:
        return {name: host.choice(name, options, values) for name, values in self.choices.items()}


@dataclass(frozen=True, slots=True)
class _StepPlatform:
    backend: StepBackend
    options: Options

    def describe(self) -> Mapping[str, Any]:
        return {"versions": dict(self.backend.probe().versions), INFERENCE_ONLY: True}

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        """Raises `Unsupported` for a graph with gradients, and what the step raises."""
        if graph.grad:
            raise Unsupported("backward", "an exported program has no gradients")
        return self.backend.step(graph, inputs, self.options)
