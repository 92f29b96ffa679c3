"""Backends `*/inductor`: compile whole graphs with `torch.compile` and Inductor, on the devices that it supports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import Graph
from mindgap.platforms.protocol import (
    PYTORCH_DECOMPOSITIONS,
    WEIGHT_COPIES,
    Array,
    Availability,
    Executable,
    Options,
    Platform,
    Unsupported,
)
from mindgap.platforms.pytorch.device import availability as presence, options as known
from mindgap.platforms.pytorch.device.devices import DEVICES, TorchDevice
from mindgap.platforms.pytorch.script import runner_on_cpu
from mindgap.platforms.pytorch.stages import inductor_stage
from mindgap.platforms.script_runner import ScriptRunner
from mindgap.platforms.stages import Stage, VariantRuns

if TYPE_CHECKING:
    import torch
    import torch.fx

    from mindgap.platforms.pytorch.compilation.compiled import Program

_CACHE: Final = "mindgap.platforms.pytorch.compilation.inductor_settings:claim_cache_on_cpu"


@dataclass(frozen=True, slots=True)
class InductorBackend:
    """Makes Inductor platforms of one device."""

    device: TorchDevice

    @property
    def options(self) -> Mapping[str, str]:
        return known.described(self.device.compiler_options)

    def probe(self) -> Availability:
        availability = presence.torch_present(self.device)
        if not availability.available:
            return availability
        for needed in (presence.triton_present(self.device), presence.compiler_present()):
            if not needed.available:
                return Availability(False, needed.reason, availability.hardware, availability.versions)
        return availability

    @property
    def forkable(self) -> bool:
        return self.device.name == "cpu"

    def environment(self, options: Options) -> Mapping[str, str]:
        # One compiler process: a pool of them per worker would outnumber the cores, and outlive a killed worker.
        return {
            **known.variables(known.checked(options, self.device.compiler_options), self.device),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
        }

    def script_runner(self, options: Options) -> ScriptRunner | None:
        return runner_on_cpu("run_compiled", options) if self.device.name == "cpu" else None

    def program_runner(self, options: Options) -> ScriptRunner | None:
        runner = runner_on_cpu("run_program_compiled", options) if self.device.name == "cpu" else None
        return None if runner is None else replace(runner, prepare=_CACHE)

    def stage_at_fault(self, runs: VariantRuns) -> Stage:
        return inductor_stage(runs)

    def open(self, options: Options) -> Platform:
        """Opens the platform. Raises `Fallback` if an option has no effect."""
        from mindgap.platforms.pytorch.compilation import inductor_settings
        from mindgap.platforms.pytorch.device import settings

        known.checked(options, self.device.compiler_options)
        description = settings.establish(options, self.device)
        description["inductor"] = inductor_settings.establish(options, description)
        return _Inductor(self.device, dict(options), description)


@dataclass(frozen=True, slots=True)
class _Inductor:
    device: TorchDevice
    options: Options
    description: Mapping[str, Any]

    def describe(self) -> Mapping[str, Any]:
        # Measured by benchmarks/weight_copies.py. A frozen program holds its weights packed.
        copies: dict[str, Any] = {} if self.options.get("freezing") == "1" else {WEIGHT_COPIES: 0}
        return {**self.description, PYTORCH_DECOMPOSITIONS: True, **copies}

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        from mindgap.platforms.pytorch.compilation import compiled, inductor_settings

        freezing = self.options.get("freezing") == "1"
        if freezing and graph.grad:
            raise Unsupported("backward", "a frozen program has no gradients")

        def compile_program(
            module: torch.fx.GraphModule, sample: Sequence[torch.Tensor], run: Callable[[Program], Any]
        ) -> Program:
            return inductor_settings.compile_graph(module, self.options, run)

        return compiled.load(graph, self.device, self.options, inputs, compile_program, freezing)


CPU: Final = InductorBackend(DEVICES["cpu"])
CUDA: Final = InductorBackend(DEVICES["cuda"])
ROCM: Final = InductorBackend(DEVICES["rocm"])
XPU: Final = InductorBackend(DEVICES["xpu"])
MPS: Final = InductorBackend(DEVICES["mps"])
