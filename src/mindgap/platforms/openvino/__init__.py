"""`openvino/cpu`: runs graphs on OpenVINO's CPU plugin, through its PyTorch front end or an ONNX model.

Comes in: a `Graph` and its inputs. Goes out: its outputs, or a refusal or failure read from OpenVINO's message.
The entry point of the platform is `BACKEND`.
"""

from mindgap.platforms.openvino.backend import BACKEND

__all__ = ["BACKEND"]
