"""`litert/cpu`: runs graphs in LiteRT's interpreter, on its kernels and its XNNPACK delegate.

Comes in: a `Graph` and its inputs. Goes out: its outputs, or a refusal or failure read from the exceptions of
litert-torch and of the interpreter. The entry point of the platform is `BACKEND`.
"""

from mindgap_runtimes.litert.backend import BACKEND

__all__ = ["BACKEND"]
