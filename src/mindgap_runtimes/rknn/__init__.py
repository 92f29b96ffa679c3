"""`rknn/simulator`: Rockchip's NPUs, simulated by the maker's toolkit, through an ONNX model.

Comes in: a `Graph` and its inputs. Goes out: its outputs, with the operators that the NPU takes, or a refusal or
failure read from the toolkit's exception. The entry point of the platform is `BACKEND`.
"""

from mindgap_runtimes.rknn.backend import BACKEND

__all__ = ["BACKEND"]
