"""Sign and Tan of five dimensions in ONNX Runtime's QNN provider. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import re
import signal
import subprocess
import sys
import traceback

PROGRAM = """
import sys
import numpy as np, onnxruntime, onnxruntime_qnn
from onnx import TensorProto, helper
name, soc = sys.argv[1:]
x, y = (helper.make_tensor_value_info(each, TensorProto.FLOAT, (1, 2, 3, 4, 5)) for each in "xy")
graph = helper.make_graph([helper.make_node(name, ["x"], ["y"])], "model", [x], [y])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
onnxruntime.register_execution_provider_library(onnxruntime_qnn.EP_NAME, onnxruntime_qnn.get_library_path())
devices = [each for each in onnxruntime.get_ep_devices() if each.ep_name == onnxruntime_qnn.EP_NAME]
options = onnxruntime.SessionOptions()
options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
options.add_provider_for_devices(devices[:1], {"backend_path": onnxruntime_qnn.get_qnn_htp_path(), "soc_model": soc})
session = onnxruntime.InferenceSession(model.SerializeToString(), options)
print("a session is made", flush=True)
session.run(None, {"x": np.ones((1, 2, 3, 4, 5), "float32")})
print("it ran", flush=True)
"""


def main():
    import onnx
    import onnxruntime
    import onnxruntime_qnn

    print("onnx", onnx.__version__, "onnxruntime", onnxruntime.__version__, onnxruntime_qnn.EP_NAME)
    fault = False
    for soc in ("0", "43"):
        for name in ("Abs", "Sign", "Tan"):
            done = subprocess.run([sys.executable, "-c", PROGRAM, name, soc], capture_output=True, text=True)
            lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
            said = [line[:160] for line in lines if re.match(r"a session|it ran|what|onnxruntime\.\S+Fail:", line)]
            print(f"soc_model {soc}, {name}: status {done.returncode}:", *said)
            not_compiled = done.returncode == 1 and "Failed to finalize QNN graph" in done.stderr
            if done.returncode not in (0, -signal.SIGSEGV, -signal.SIGABRT) and not not_compiled:
                raise RuntimeError("it ends in another way")
            fault |= done.returncode != 0
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
