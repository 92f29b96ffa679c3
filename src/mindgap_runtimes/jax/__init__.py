"""`jax/cpu`: runs graphs on XLA's CPU client, through torchax and JAX.

Comes in: a `Graph` and its inputs. Goes out: its outputs, or a refusal or failure read from the exception of torchax,
JAX or XLA. The entry point of the platform is `BACKEND`.
"""

from mindgap_runtimes.jax.backend import BACKEND

__all__ = ["BACKEND"]
