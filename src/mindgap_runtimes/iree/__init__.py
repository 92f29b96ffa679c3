"""`iree/cpu`: runs graphs on IREE's CPU runtime, through iree-turbine, IREE's front end of PyTorch.

Comes in: a `Graph` and its inputs. Goes out: its outputs, or a refusal or failure read from IREE's diagnostics. The
entry point of the platform is `BACKEND`.
"""

from mindgap_runtimes.iree.backend import BACKEND

__all__ = ["BACKEND"]
