"""Exp of large numbers in ONNX Runtime's QNN provider for SM8550. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import sys
import traceback


def main():
    import numpy as np
    import onnx
    import onnxruntime
    import onnxruntime_qnn
    from onnx import helper, numpy_helper

    print("onnx", onnx.__version__, "onnxruntime", onnxruntime.__version__, "onnxruntime-qnn, simulated")
    onnxruntime.register_execution_provider_library(onnxruntime_qnn.EP_NAME, onnxruntime_qnn.get_library_path())
    devices = [each for each in onnxruntime.get_ep_devices() if each.ep_name == onnxruntime_qnn.EP_NAME]

    def run(nodes, operands, initializers=None):
        """The result of the simulated NPU, and that of ONNX Runtime's CPU provider."""
        kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in operands.items()}
        inputs = [helper.make_tensor_value_info(n, kinds[n], a.shape) for n, a in operands.items()]
        outputs = [helper.make_tensor_value_info("y", next(iter(kinds.values())), None)]
        constants = [numpy_helper.from_array(array, name) for name, array in (initializers or {}).items()]
        graph = helper.make_graph(nodes, "model", inputs, outputs, constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()
        cpu = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, operands)[0]
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        options.add_provider_for_devices(devices[:1], {"backend_path": onnxruntime_qnn.get_qnn_htp_path(), "soc_model": "43"})
        return onnxruntime.InferenceSession(model, options).run(None, operands)[0], cpu

    x = np.array([5, 11, 80, 100, 112, 120, 200, -80, -100, -184, -300], "float32")
    found, right = run([helper.make_node("Exp", ["x"], ["y"])], {"x": x})
    print("x", x, "found", found, "right", right)
    fault = bool((found[:7] < 1).any() or (np.abs(found[7:]) > 1e-3).any())
    numbers = np.array([[5, -100, 3, 2]], "float32")
    nodes = [helper.make_node("ReduceLogSumExp", ["x", "axes"], ["y"])]
    found, right = run(nodes, {"x": numbers}, {"axes": np.array([1])})
    print("logsumexp of", numbers, "found", found, "right", right)
    fault |= bool(np.abs(found - right).max() > 1)
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
