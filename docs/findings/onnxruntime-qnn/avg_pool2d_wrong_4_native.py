"""AveragePool of stride 1 with padding that counts in ONNX Runtime's QNN provider for SM8550. Exit status 1: the fault is there; 0: gone; 2: not checked."""

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

    fault = False
    for kernel, stride in ((3, 1), (5, 1), (7, 2), (2, 1), (4, 1), (7, 1)):
        sizes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [kernel // 2] * 4}
        node = helper.make_node("AveragePool", ["x"], ["y"], count_include_pad=1, **sizes)
        x = (np.arange(3 * 28 * 28, dtype="float32") * 5 % 7).reshape(1, 3, 28, 28)
        found, right = run([node], {"x": x})
        off = np.abs(found - right)
        place = np.unravel_index(off.argmax(), off.shape)
        print(f"kernel {kernel}, stride {stride}: {found[place]:.4f} for {right[place]:.4f}, {(off > 0.1).sum()} of {off.size}")
        fault |= bool(off.max() > 0.1)
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
