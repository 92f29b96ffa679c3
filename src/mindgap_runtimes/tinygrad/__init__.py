"""`tinygrad/cpu`: runs ONNX models on tinygrad's CPU device, through its ONNX front end.

Comes in: a `Graph` and its inputs. Goes out: its outputs, or a refusal or failure read from tinygrad's exception.
The entry point of the platform is `BACKEND`.
"""

from mindgap_runtimes.tinygrad.backend import BACKEND

__all__ = ["BACKEND"]
