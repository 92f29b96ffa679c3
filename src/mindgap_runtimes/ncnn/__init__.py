"""`ncnn/cpu`: runs graphs on ncnn's layers for CPUs, through `torch.jit.trace` and pnnx.

Comes in: a `Graph` and its inputs. Goes out: its outputs, or a refusal or failure read from what pnnx and ncnn print.
The entry point of the platform is `BACKEND`.
"""

from mindgap_runtimes.ncnn.backend import BACKEND

__all__ = ["BACKEND"]
