"""From a PyTorch program to a graph.

Comes in: an `nn.Module` or any callable, with its arguments. Goes out: a `Graph` of what the program calls, above
autograd and above the decomposition of composite operators, with recipes for every input. Knows no platform: what
is captured here is neutral to devices, and each capture is proven by replaying it before it is handed out.
"""

from mindgap.capture.capture import capture
from mindgap.capture.errors import CaptureError

__all__ = ["CaptureError", "capture"]
