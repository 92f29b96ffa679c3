"""From a PyTorch program to a graph.

Comes in: an `nn.Module` or any callable, with its arguments. Goes out: a `Graph` with recipes for every input, at one
of two levels: what the program calls, above autograd and above the decomposition of composite operators (`capture`),
or what a backend is handed below autograd, with gradients and an optimiser's step where asked (`capture_kernels`).
Knows no platform: what is captured here is neutral to devices, and each capture is proven by replaying it before it
is handed out.
"""

import sys
from types import ModuleType

from mindgap.capture.capture import capture
from mindgap.capture.errors import CaptureError
from mindgap.capture.explicit_gradients import with_explicit_gradients
from mindgap.capture.kernels import capture_kernels
from mindgap.capture.training_pass import Optimizer

__all__ = ["CaptureError", "Optimizer", "capture", "capture_kernels", "with_explicit_gradients"]


class _CallablePackage(ModuleType):
    """Makes `mindgap.capture(...)` call `capture`, while `import mindgap.capture` still gives the package."""

    __call__ = staticmethod(capture)


sys.modules[__name__].__class__ = _CallablePackage
