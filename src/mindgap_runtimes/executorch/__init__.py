"""`executorch/cpu`: runs graphs in ExecuTorch's runtime, on its portable kernels and its XNNPACK delegate.

Comes in: a `Graph` and its inputs. Goes out: its outputs, or a refusal or failure read from the exceptions of the
exporter and from what the runtime prints. The entry point of the platform is `BACKEND`.
"""

from mindgap_runtimes.executorch.backend import BACKEND

__all__ = ["BACKEND"]
