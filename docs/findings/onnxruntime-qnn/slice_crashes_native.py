"""Slice of the first of five dimensions in ONNX Runtime's QNN provider (v68). Exit status 1: the fault is there; 0: gone; 2: not checked."""

import signal
import subprocess
import sys
import traceback

PROGRAM = """
import numpy as np, onnxruntime, onnxruntime_qnn
from onnx import TensorProto, helper, numpy_helper
x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 3, 4, 5, 6))
y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 3, 4, 5, 6))
given = [numpy_helper.from_array(np.array([value]), name) for name, value in (("s", 1), ("e", 2), ("a", 0))]
graph = helper.make_graph([helper.make_node("Slice", ["x", "s", "e", "a"], ["y"])], "model", [x], [y], given)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
onnxruntime.register_execution_provider_library(onnxruntime_qnn.EP_NAME, onnxruntime_qnn.get_library_path())
devices = [each for each in onnxruntime.get_ep_devices() if each.ep_name == onnxruntime_qnn.EP_NAME]
options = onnxruntime.SessionOptions()
options.add_provider_for_devices(devices[:1], {"backend_path": onnxruntime_qnn.get_qnn_htp_path()})
print("a session is made", flush=True)
session = onnxruntime.InferenceSession(model.SerializeToString(), options)
print("it was made, and is run", flush=True)
session.run(None, {"x": np.ones((2, 3, 4, 5, 6), "float32")})
print("it ran", flush=True)
"""


def main():
    import onnx
    import onnxruntime
    import onnxruntime_qnn

    print("onnx", onnx.__version__, "onnxruntime", onnxruntime.__version__, onnxruntime_qnn.EP_NAME)
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    print(done.stdout.strip(), "status", done.returncode)
    fault = done.returncode == -signal.SIGSEGV
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
