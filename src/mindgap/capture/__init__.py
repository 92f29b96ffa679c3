"""Captures a PyTorch program as a graph.

Comes in: an `nn.Module` or any callable, with its arguments. Goes out: a `Graph` with a recipe for every input, at one
of two levels. `capture` records the calls of the program, above autograd and above the decomposition of composite
operators. `capture_kernels` records what a backend is given below autograd, with gradients and an optimiser's step on
request. Every capture is checked by replaying it against the program. Must not know: platforms. A captured graph
depends on no device.
"""

import sys
from types import ModuleType

from mindgap.capture.errors import CaptureError
from mindgap.capture.explicit_gradients import with_explicit_gradients
from mindgap.capture.kernels import capture_kernels
from mindgap.capture.program_capture import capture
from mindgap.capture.training_pass import Optimizer

__all__ = ["CaptureError", "Optimizer", "capture", "capture_kernels", "with_explicit_gradients"]


class _CapturePackage(ModuleType):
    """Makes `mindgap.capture(...)` call `capture`, while `import mindgap.capture` still gives the package."""

    __call__ = staticmethod(capture)


sys.modules[__name__].__class__ = _CapturePackage
