"""ReduceMax of an empty batch in ONNX Runtime's WebGPU provider. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import sys
import traceback


def main():
    import ctypes
    import ctypes.util
    import os

    import numpy as np
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper

    driver = os.environ.setdefault("VK_DRIVER_FILES", "/usr/lib/chromium/vk_swiftshader_icd.json")
    ctypes.CDLL(ctypes.util.find_library("vulkan") or f"{os.path.dirname(driver)}/libvulkan.so.1", ctypes.RTLD_GLOBAL)
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

    operands = {"x": np.zeros((0, 4), "float32")}
    axes = {"axes": np.array([1], "int64")}
    nodes = [helper.make_node("ReduceMax", ["x", "axes"], ["y"], keepdims=0)]
    print("CPU provider", run(nodes, operands, axes, providers=("CPUExecutionProvider",)).shape)
    try:
        print("WebGPU", run(nodes, operands, axes).shape)
        fault = False
    except Exception as error:
        print(type(error).__name__, str(error)[:300])
        if "Input tensor cannot be null or empty" not in str(error):
            raise  # another failure: not checked
        fault = True
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
