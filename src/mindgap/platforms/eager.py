"""PyTorch's eager mode: `cpu/eager`, and the same on `cuda`, `mps` and `xpu`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import Graph
from mindgap.platforms.protocol import Array, Availability, Options, Platform
from mindgap.platforms.pytorch import options as known
from mindgap.platforms.pytorch import presence

if TYPE_CHECKING:
    from mindgap.platforms.pytorch.direct import Direct

_EVERYWHERE: Final = ("threads", "layout", "matmul", "autocast", "dtype")
_CPU_ONLY: Final = ("isa", "onednn")


@dataclass(frozen=True, slots=True)
class EagerBackend:
    """Makes eager platforms of one device."""

    device: str

    @property
    def options(self) -> Mapping[str, str]:
        return known.described(self._names)

    @property
    def _names(self) -> tuple[str, ...]:
        return _CPU_ONLY + _EVERYWHERE if self.device == "cpu" else _EVERYWHERE

    def probe(self) -> Availability:
        return presence.torch_present(self.device)

    def environment(self, options: Options) -> Mapping[str, str]:
        found = known.variables(known.checked(options, self._names))
        # An operator that Metal lacks must be refused, not run on the CPU unseen.
        return {**found, "PYTORCH_ENABLE_MPS_FALLBACK": "0"} if self.device == "mps" else found

    def open(self, options: Options) -> Platform:
        """Raises `Fallback` where an option is not obeyed."""
        from mindgap.platforms.pytorch import settings

        known.checked(options, self._names)
        settings.check_tier(options)
        return _Eager(self.device, dict(options), settings.establish(options, self.device))


@dataclass(frozen=True, slots=True)
class _Eager:
    device: str
    options: Options
    description: Mapping[str, Any]

    def describe(self) -> Mapping[str, Any]:
        return self.description

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Direct:
        from mindgap.platforms.pytorch.direct import Direct

        return Direct(graph, self.options, self.device)


CPU: Final = EagerBackend("cpu")
CUDA: Final = EagerBackend("cuda")
MPS: Final = EagerBackend("mps")
XPU: Final = EagerBackend("xpu")
