"""`onnxruntime/cpu` and `onnxruntime/PROVIDER`: run ONNX models on ONNX Runtime's execution providers.

Comes in: a `Graph` and its inputs. Goes out: its outputs, or a refusal or failure read from ONNX Runtime's message.
The entry points are `BACKEND` for the CPU provider, and one backend of `providers` for each of the others.
"""

from mindgap.platforms.onnxruntime.backend import BACKEND

__all__ = ["BACKEND"]
