"""Captures a PyTorch program as a graph.

Comes in: an `nn.Module` or any callable, with its arguments. Goes out: a `Graph` with a recipe for every input, at one
of two levels. `capture` records the calls of the program, above autograd and above the decomposition of composite
operators. `capture_kernels` records what a backend is given below autograd, with gradients and an optimiser's step on
request. Every capture is checked by replaying it against the program. Must not know: platforms. A captured graph
depends on no device.
"""

from mindgap.graph_capture.errors import CaptureError
from mindgap.graph_capture.explicit_gradients import with_explicit_gradients
from mindgap.graph_capture.kernels import capture_kernels
from mindgap.graph_capture.program_capture import capture
from mindgap.graph_capture.training_pass import Optimizer

__all__ = ["CaptureError", "Optimizer", "capture", "capture_kernels", "with_explicit_gradients"]
