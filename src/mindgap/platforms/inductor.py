"""`cpu/inductor` and `cuda/inductor`: the graph through `torch.compile`, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import Graph
from mindgap.platforms.protocol import Array, Availability, Executable, Options, Platform, Unsupported
from mindgap.platforms.pytorch import options as known
from mindgap.platforms.pytorch import presence

if TYPE_CHECKING:
    import torch
    import torch.fx

    from mindgap.platforms.pytorch.compiled import Program

_OPTIONS: Final = {"cpu": ("freezing", "matmul", "simdlen", "threads"), "cuda": ("freezing", "matmul", "threads")}


@dataclass(frozen=True, slots=True)
class InductorBackend:
    """Makes Inductor platforms of one device."""

    device: str

    @property
    def options(self) -> Mapping[str, str]:
        return known.described(_OPTIONS[self.device])

    def probe(self) -> Availability:
        found = presence.torch_present(self.device)
        compiler = presence.compiler_present()
        if not found.available or compiler.available:
            return found
        return Availability(False, compiler.reason, found.hardware, found.versions)

    def environment(self, options: Options) -> Mapping[str, str]:
        # One compiler process: a pool of them per worker would outnumber the cores, and outlive a killed worker.
        return {
            **known.variables(known.checked(options, _OPTIONS[self.device])),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
        }

    def open(self, options: Options) -> Platform:
        """Raises `Fallback` where an option is not obeyed."""
        from mindgap.platforms.pytorch import inductor_settings, settings

        known.checked(options, _OPTIONS[self.device])
        description = settings.establish(options, self.device)
        description["inductor"] = inductor_settings.establish(options, description)
        return _Inductor(self.device, dict(options), description)


@dataclass(frozen=True, slots=True)
class _Inductor:
    device: str
    options: Options
    description: Mapping[str, Any]

    def describe(self) -> Mapping[str, Any]:
        return self.description

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        from mindgap.platforms.pytorch import compiled, inductor_settings

        freezing = self.options.get("freezing") == "1"
        if freezing and graph.grad:
            raise Unsupported("backward", "a frozen program has no gradients")

        def compile_program(
            module: torch.fx.GraphModule, sample: Sequence[torch.Tensor], run: Callable[[Program], Any]
        ) -> Program:
            return inductor_settings.compile_whole(module, self.options, run)

        return compiled.load(graph, self.device, self.options, inputs, compile_program, freezing)


CPU: Final = InductorBackend("cpu")
CUDA: Final = InductorBackend("cuda")
