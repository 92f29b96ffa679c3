"""`tvm/cpu`: runs graphs on Apache TVM's CPU runtime, through its Relax front end of PyTorch and LLVM.

Comes in: a `Graph` and its inputs. Goes out: its outputs, or a refusal or failure read from TVM's exception. The entry
point of the platform is `BACKEND`.
"""

from mindgap_runtimes.tvm.backend import BACKEND

__all__ = ["BACKEND"]
