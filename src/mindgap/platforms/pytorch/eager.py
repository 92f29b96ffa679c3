"""Backends `*/eager`: run graphs operator by operator in PyTorch's eager mode, on every device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import Graph
from mindgap.platforms import dtype_policy
from mindgap.platforms.protocol import WEIGHT_COPIES, Array, Options, Platform
from mindgap.platforms.pytorch.backend import TorchBackend, TorchPlatform
from mindgap.platforms.pytorch.device import options as known
from mindgap.platforms.pytorch.device.devices import DEVICES, TorchDevice as TorchDevice  # for makers
from mindgap.platforms.pytorch.script import eager_runner
from mindgap.platforms.pytorch.stages import eager_stage
from mindgap.platforms.script_runner import ScriptRunner

if TYPE_CHECKING:
    from mindgap.platforms.pytorch.execution.eager_executable import EagerExecutable


@dataclass(frozen=True, slots=True)
class EagerBackend(TorchBackend):
    """Makes eager platforms of one device."""

    @property
    def names(self) -> tuple[str, ...]:
        return self.device.options

    def script_runner(self, options: Options) -> ScriptRunner | None:
        return eager_runner(self.device, options)

    def open(self, options: Options) -> Platform:
        """Opens the platform. Raises `Fallback` if an option has no effect."""
        from mindgap.platforms.pytorch.device import settings

        known.checked(options, self.names)
        settings.check_tier(options)
        return _Eager(self.device, dict(options), settings.establish(options, self.device))


class _Eager(TorchPlatform):
    def describe(self) -> Mapping[str, Any]:
        return {**self.description, WEIGHT_COPIES: 0, dtype_policy.KEY: dtype_policy.measured_dtypes(self)}

    def load(self, graph: Graph, inputs: Sequence[Array]) -> EagerExecutable:
        from mindgap.platforms.pytorch.execution.eager_executable import EagerExecutable

        return EagerExecutable(graph, self.options, self.device)


CPU: Final = EagerBackend(DEVICES["cpu"], eager_stage)
CUDA: Final = EagerBackend(DEVICES["cuda"])
ROCM: Final = EagerBackend(DEVICES["rocm"])
XPU: Final = EagerBackend(DEVICES["xpu"])
MPS: Final = EagerBackend(DEVICES["mps"])
NPU: Final = EagerBackend(DEVICES["npu"])
HPU: Final = EagerBackend(DEVICES["hpu"])
