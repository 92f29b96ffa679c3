"""`onnx/reference`: runs ONNX models in the reference evaluator of the package `onnx`.

Comes in: a `Graph` and its inputs. Goes out: its outputs, or a refusal or failure read from the evaluator's exception.
The entry point of the platform is `BACKEND`.
"""

from mindgap.platforms.onnx_reference.backend import BACKEND

__all__ = ["BACKEND"]
