"""What the backends of PyTorch's own platforms have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mindgap.graph import Graph
from mindgap.platforms.protocol import Array, Availability, Executable, Options, Unsupported
from mindgap.platforms.pytorch.device import availability as presence, options as known
from mindgap.platforms.pytorch.device.devices import TorchDevice
from mindgap.platforms.pytorch.stages import inductor_stage
from mindgap.platforms.stages import Stage, VariantRuns

if TYPE_CHECKING:
    from mindgap.platforms.pytorch.compilation.compiled import Compile


@dataclass(frozen=True, slots=True)
class TorchBackend:
    """A backend of one device. `stage_at_fault`, `recipe`: as in `protocol`."""

    device: TorchDevice
    stage_at_fault: Callable[[VariantRuns], Stage] | None = None
    recipe: Path | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The options that its platforms take."""
        return self.device.compiler_options

    @property
    def options(self) -> Mapping[str, str]:
        return known.described(self.names)

    @property
    def forkable(self) -> bool:
        return self.device.name == "cpu"

    @property
    def packages(self) -> tuple[str, ...]:
        return (self.device.distribution,) if self.device.distribution else ()

    def probe(self) -> Availability:
        return presence.torch_present(self.device)

    def environment(self, options: Options) -> Mapping[str, str]:
        return known.variables(known.checked(options, self.names), self.device)


@dataclass(frozen=True, slots=True)
class InductorsBackend(TorchBackend):
    """A backend whose platforms run what Inductor generates."""

    stage_at_fault: Callable[[VariantRuns], Stage] | None = inductor_stage

    def probe(self) -> Availability:
        availability = presence.torch_present(self.device)
        if not availability.available:
            return availability
        for needed in (presence.triton_present(self.device), presence.compiler_present()):
            if not needed.available:
                return Availability(False, needed.reason, availability.hardware, availability.versions)
        return availability

    def environment(self, options: Options) -> Mapping[str, str]:
        # One compiler process: a pool of them per worker would outnumber the cores, and outlive a killed worker.
        return {**TorchBackend.environment(self, options), "TORCHINDUCTOR_COMPILE_THREADS": "1"}


@dataclass(frozen=True, slots=True)
class TorchPlatform:
    """A platform of one device. `description`: of what its options established."""

    device: TorchDevice
    options: Options
    description: Mapping[str, Any]

    @property
    def freezing(self) -> bool:
        return self.options.get("freezing") == "1"

    def compiled(self, graph: Graph, inputs: Sequence[Array], compile_program: Compile) -> Executable:
        """Compiles the graph with a compiler. Raises `Unsupported`, `CompileFailure` or `Fallback`."""
        from mindgap.platforms.pytorch.compilation import compiled

        if self.freezing and graph.grad:
            raise Unsupported("backward", "a frozen program has no gradients")
        return compiled.load(graph, self.device, self.options, inputs, compile_program, self.freezing)
