"""Backends `*/eager`: run graphs operator by operator in PyTorch's eager mode, on every device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import Graph
from mindgap.platforms import dtype_policy
from mindgap.platforms.protocol import WEIGHT_COPIES, Array, Availability, Options, Platform
from mindgap.platforms.pytorch.device import availability as presence
from mindgap.platforms.pytorch.device import options as known
from mindgap.platforms.pytorch.device.devices import DEVICES, TorchDevice

if TYPE_CHECKING:
    from mindgap.platforms.pytorch.execution.eager_executable import EagerExecutable


@dataclass(frozen=True, slots=True)
class EagerBackend:
    """Makes eager platforms of one device."""

    device: TorchDevice

    @property
    def options(self) -> Mapping[str, str]:
        return known.described(self.device.options)

    def probe(self) -> Availability:
        return presence.torch_present(self.device)

    @property
    def forkable(self) -> bool:
        return self.device.name == "cpu"

    def environment(self, options: Options) -> Mapping[str, str]:
        return known.variables(known.checked(options, self.device.options), self.device)

    def open(self, options: Options) -> Platform:
        """Opens the platform. Raises `Fallback` if an option has no effect."""
        from mindgap.platforms.pytorch.device import settings

        known.checked(options, self.device.options)
        settings.check_tier(options)
        return _Eager(self.device, dict(options), settings.establish(options, self.device))


@dataclass(frozen=True, slots=True)
class _Eager:
    device: TorchDevice
    options: Options
    description: Mapping[str, Any]

    def describe(self) -> Mapping[str, Any]:
        return {**self.description, WEIGHT_COPIES: 0, dtype_policy.KEY: dtype_policy.measured_dtypes(self)}

    def load(self, graph: Graph, inputs: Sequence[Array]) -> EagerExecutable:
        from mindgap.platforms.pytorch.execution.eager_executable import EagerExecutable

        return EagerExecutable(graph, self.options, self.device)


CPU: Final = EagerBackend(DEVICES["cpu"])
CUDA: Final = EagerBackend(DEVICES["cuda"])
ROCM: Final = EagerBackend(DEVICES["rocm"])
XPU: Final = EagerBackend(DEVICES["xpu"])
MPS: Final = EagerBackend(DEVICES["mps"])
NPU: Final = EagerBackend(DEVICES["npu"])
HPU: Final = EagerBackend(DEVICES["hpu"])
XLA: Final = EagerBackend(DEVICES["xla"])
