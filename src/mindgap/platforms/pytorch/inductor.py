"""Backends `*/inductor`: compile whole graphs with `torch.compile` and Inductor, on the devices that it supports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mindgap.graph import Graph
from mindgap.platforms.protocol import (
    PYTORCH_DECOMPOSITIONS,
    WEIGHT_COPIES,
    Array,
    Executable,
    Options,
    Platform,
)
from mindgap.platforms.pytorch.backend import InductorsBackend, TorchPlatform
from mindgap.platforms.pytorch.device import options as known
from mindgap.platforms.pytorch.device.devices import DEVICES
from mindgap.platforms.pytorch.script import runner_on_cpu
from mindgap.platforms.script_runner import ScriptRunner

_CACHE: Final = "mindgap.platforms.pytorch.compilation.inductor_settings:claim_cache_on_cpu"


@dataclass(frozen=True, slots=True)
class InductorBackend(InductorsBackend):
    """Makes Inductor platforms of one device."""

    def script_runner(self, options: Options) -> ScriptRunner | None:
        return runner_on_cpu("run_compiled", options) if self.device.name == "cpu" else None

    def program_runner(self, options: Options) -> ScriptRunner | None:
        runner = runner_on_cpu("run_program_compiled", options) if self.device.name == "cpu" else None
        return None if runner is None else replace(runner, prepare=_CACHE)

    def open(self, options: Options) -> Platform:
        """Opens the platform. Raises `Fallback` if an option has no effect."""
        from mindgap.platforms.pytorch.compilation import inductor_settings
        from mindgap.platforms.pytorch.device import settings

        known.checked(options, self.names)
        description = settings.establish(options, self.device)
        description["inductor"] = inductor_settings.establish(options, description)
        return _Inductor(self.device, dict(options), description)


class _Inductor(TorchPlatform):
    def describe(self) -> Mapping[str, Any]:
        # Measured by benchmarks/weight_copies.py. A frozen program holds its weights packed.
        copies: dict[str, Any] = {} if self.freezing else {WEIGHT_COPIES: 0}
        return {**self.description, PYTORCH_DECOMPOSITIONS: True, **copies}

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        from mindgap.platforms.pytorch.compilation.inductor_settings import compile_graph

        return self.compiled(graph, inputs, lambda module, _, run: compile_graph(module, self.options, run))


CPU: Final = InductorBackend(DEVICES["cpu"])
CUDA: Final = InductorBackend(DEVICES["cuda"])
ROCM: Final = InductorBackend(DEVICES["rocm"])
XPU: Final = InductorBackend(DEVICES["xpu"])
MPS: Final = InductorBackend(DEVICES["mps"])
