"""A `*/eager` backend that also reports which algorithm computed each convolution, from PyTorch's profiler.

It is no registered platform: workers open it by its place, `mindgap_studies.machines.profiled_backend:CUDA`. The names
are those of the kernels that the device ran; on a CPU, which reports no kernels, of the innermost operators.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (torch.profiler is typed in parts only)

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mindgap.graph import Array, Graph
from mindgap.platforms.protocol import Availability, Executable, Options, Platform
from mindgap.platforms.pytorch.eager import CPU as EAGER_ON_CPU, CUDA as EAGER_ON_CUDA, EagerBackend

if TYPE_CHECKING:
    from torch.autograd.profiler_util import FunctionEvent

#: The operators whose kernels are reported.
_CONVOLUTIONS: Final = ("aten::conv1d", "aten::conv2d", "aten::conv3d")
#: Part of a kernel's name, in lower case -> the approach (Table SUP-4). The first that is found counts.
_APPROACHES: Final = (
    ("winograd", "Winograd"),
    ("fft", "FFT"),
    ("implicit_precomp", "implicit precomputed GEMM"),
    ("implicit", "implicit GEMM"),
    ("xmma", "implicit GEMM"),
    ("cutlass", "implicit GEMM"),
    ("gemm", "explicit GEMM"),
    ("depthwise", "direct"),
    ("direct", "direct"),
    ("slow_conv", "explicit GEMM"),
    ("mkldnn", "oneDNN"),
    ("conv", "other"),
)


def approach(kernels: Sequence[str]) -> str:
    """Returns the approach of the kernels of one convolution; `unknown` where no name tells."""
    text = " ".join(kernels).lower()
    return next((name for part, name in _APPROACHES if part in text), "unknown")


@dataclass(frozen=True, slots=True)
class ProfiledBackend:
    """Makes eager platforms whose outcomes have `facts["convolutions"]`: the kernels of each one, in order."""

    eager: EagerBackend

    @property
    def options(self) -> Mapping[str, str]:
        return self.eager.options

    def probe(self) -> Availability:
        return self.eager.probe()

    def environment(self, options: Options) -> Mapping[str, str]:
        return self.eager.environment(options)

    def open(self, options: Options) -> Platform:
        return _Profiled(self.eager.open(options))


@dataclass(frozen=True, slots=True)
class _Profiled:
    platform: Platform

    def describe(self) -> Mapping[str, Any]:
        return self.platform.describe()

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        return _ProfiledExecutable(self.platform.load(graph, inputs))


class _ProfiledExecutable:
    def __init__(self, executable: Executable) -> None:
        self._executable = executable
        #: Of the latest call: the first one may also have run the kernels of a benchmark.
        self.facts: dict[str, Any] = {}

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        from torch.profiler import profile

        with profile() as profiler:
            outputs = self._executable(inputs)
        events = sorted(profiler.events() or (), key=lambda event: event.time_range.start)
        found = [_kernels(each) for each in events if each.name in _CONVOLUTIONS]
        self.facts = {"convolutions": found}
        return outputs


def _kernels(event: FunctionEvent) -> list[str]:
    """Returns the kernels that an operator and its children started; without any, its innermost convolutions."""
    below = [event, *_descendants(event)]
    launched = [kernel.name for each in below for kernel in each.kernels]
    convolutions = [each for each in below if "conv" in each.name]
    innermost = [each.name for each in convolutions if not any("conv" in child.name for child in _descendants(each))]
    return launched or innermost


def _descendants(event: FunctionEvent) -> Iterator[FunctionEvent]:
    for child in event.cpu_children:
        yield child
        yield from _descendants(child)


CPU: Final = ProfiledBackend(EAGER_ON_CPU)
CUDA: Final = ProfiledBackend(EAGER_ON_CUDA)
