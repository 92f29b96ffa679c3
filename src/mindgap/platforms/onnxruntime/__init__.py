"""`onnxruntime/cpu`: runs ONNX models on ONNX Runtime's CPU execution provider.

Comes in: a `Graph` and its inputs. Goes out: its outputs, or a refusal or failure read from ONNX Runtime's message.
The entry point of the platform is `BACKEND`.
"""

from mindgap.platforms.onnxruntime.backend import BACKEND

__all__ = ["BACKEND"]
