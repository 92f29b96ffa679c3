"""Slice and Pad of one dimension in ONNX Runtime's QNN provider for v68. Exit status 1: the fault is there; 0: gone; 2: not checked."""

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
        options.add_provider_for_devices(devices[:1], {"backend_path": onnxruntime_qnn.get_qnn_htp_path()})
        return onnxruntime.InferenceSession(model, options).run(None, operands)[0], cpu

    x = np.arange(1, 9, dtype="float32").reshape(1, 1, 8)
    bounds = {"start": np.array([2]), "end": np.array([5]), "axis": np.array([2])}
    pads = {"pads": np.array([0, 0, 0, 0, 0, 1])}
    cut = helper.make_node("Slice", ["x", "start", "end", "axis"], ["s"])
    kept = [cut, helper.make_node("Relu", ["s"], ["r"]), helper.make_node("Pad", ["r", "pads"], ["y"])]
    apart, right = run(kept, {"x": x}, {**bounds, **pads})
    found, _ = run([cut, helper.make_node("Pad", ["s", "pads"], ["y"])], {"x": x}, {**bounds, **pads})
    print("found", found, "with a Relu between, which changes nothing", apart, "right", right)
    assert np.abs(apart - right).max() == 0, "another fault"
    fault = np.abs(found - right).max() > 0.1
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
