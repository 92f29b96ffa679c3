"""Gemm with a C without dimensions in ONNX Runtime's WebGPU provider. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import subprocess
import sys
import traceback


def main(size=None):
    import ctypes
    import ctypes.util
    import os

    import numpy as np
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper

    driver = os.environ.setdefault("VK_DRIVER_FILES", "/usr/lib/chromium/vk_swiftshader_icd.json")
    ctypes.CDLL(ctypes.util.find_library("vulkan") or f"{os.path.dirname(driver)}/libvulkan.so.1", ctypes.RTLD_GLOBAL)
    if size is None:
        print("onnx", onnx.__version__, "onnxruntime-webgpu", onnxruntime.__version__)

    def run(nodes, operands, initializers=None, providers=("WebGpuExecutionProvider",)):
        kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in operands.items()}
        inputs = [helper.make_tensor_value_info(n, kinds[n], a.shape) for n, a in operands.items()]
        outputs = [helper.make_tensor_value_info("y", next(iter(kinds.values())), None)]
        constants = [numpy_helper.from_array(array, name) for name, array in (initializers or {}).items()]
        graph = helper.make_graph(nodes, "model", inputs, outputs, constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()
        options = onnxruntime.SessionOptions()
        if providers[0] != "CPUExecutionProvider":
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        session = onnxruntime.InferenceSession(model, options, enable_fallback=0, providers=list(providers))
        return session.run(None, operands)[0]

    if size is not None:  # in a process of its own
        operands = {"a": np.ones((size, size), "float32"), "b": np.ones((size, size), "float32")}
        node = helper.make_node("Gemm", ["a", "b", "c"], ["y"])
        print(run([node], operands, {"c": np.array(0.5, "float32")})[0, 0])
        return 0
    statuses = {}
    for size in (8, 9, 64):
        command = [sys.executable, __file__, str(size)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        statuses[size] = done.returncode
        print("size", size, "status", done.returncode, done.stdout.strip(), done.stderr.strip()[-100:])
    if statuses[8] or not {statuses[9], statuses[64]} <= {0, -6}:
        raise RuntimeError("another failure: not checked")
    fault = statuses[9] == statuses[64] == -6  # SIGABRT
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main(*map(int, sys.argv[1:]))
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
