"""x * Sigmoid(x) of negative numbers in ONNX Runtime's WebGPU provider. Exit status 1: the fault is there; 0: gone; 2: not checked."""

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

    def run(nodes, operands, initializers=None, providers=("WebGpuExecutionProvider",), fused=True):
        kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in operands.items()}
        inputs = [helper.make_tensor_value_info(n, kinds[n], a.shape) for n, a in operands.items()]
        outputs = [helper.make_tensor_value_info("y", next(iter(kinds.values())), None)]
        constants = [numpy_helper.from_array(array, name) for name, array in (initializers or {}).items()]
        graph = helper.make_graph(nodes, "model", inputs, outputs, constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()
        options = onnxruntime.SessionOptions()
        if not fused:
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        if providers[0] != "CPUExecutionProvider":
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        session = onnxruntime.InferenceSession(model, options, enable_fallback=0, providers=list(providers))
        return session.run(None, operands)[0]

    x = np.array([-20, -17, -15, -12, 0], "float32")
    nodes = [helper.make_node("Sigmoid", ["x"], ["s"]), helper.make_node("Mul", ["x", "s"], ["y"])]
    found, apart = run(nodes, {"x": x}), run(nodes, {"x": x}, fused=False)
    wide = x.astype("float64")
    right = wide / (1 + np.exp(-wide))
    print("found", found.tolist(), "without optimisation", apart.tolist(), "right", right.tolist())
    fault = not np.allclose(found, right, rtol=2e-3, atol=0)
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
