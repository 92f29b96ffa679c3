"""uint16 activations and uint8 weights between DequantizeLinear and QuantizeLinear. Exit status 1: the fault is there; 0: gone; 2: not checked.

These are the types that ONNX Runtime's guide of the QNN provider gives `get_qnn_qdq_config`. The model's weights are
integers from 0 to 255 with the zero point 0. Odd ones are computed as even ones, as of a symmetric 8-bit type of the
same range. With int8 weights of the zero point 0 the result is right to one step. The maker's simulator runs it.
"""
import sys
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np, onnx, onnxruntime, onnxruntime_qnn
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

print("onnxruntime", onnxruntime.__version__, "onnxruntime-qnn", onnxruntime_qnn.__version__, "simulated")
onnxruntime.register_execution_provider_library(onnxruntime_qnn.EP_NAME, onnxruntime_qnn.get_library_path())
device = next(each for each in onnxruntime.get_ep_devices() if each.ep_name == onnxruntime_qnn.EP_NAME)
integers = (np.arange(16 * 8) * 37 % 128).reshape(16, 8)
x = (np.arange(4 * 16) * 2579 % 65536).reshape(4, 16).astype(np.uint16)
faults = 0
for name, weight in (("int8", integers.astype(np.int8)), ("uint8", (2 * integers + 1).astype(np.uint8))):
    w_scale = np.float32(0.01 if weight.dtype == np.int8 else 0.005)
    values = {
        "x_scale": np.float32(1e-4), "x_zero": np.uint16(32768), "w": weight, "w_scale": w_scale,
        "w_zero": weight.dtype.type(0), "y_scale": np.float32(4e-4), "y_zero": np.uint16(32768),
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "x_scale", "x_zero"], ["real"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["weight"]),
        helper.make_node("MatMul", ["real", "weight"], ["product"]),
        helper.make_node("QuantizeLinear", ["product", "y_scale", "y_zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "y_scale", "y_zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.UINT16, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (4, 8))],
        [numpy_helper.from_array(np.asarray(value), key) for key, value in values.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    (right,) = ReferenceEvaluator(model).run(None, {"x": x})
    for soc in ("0", "43"):
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
        paths = {"backend_path": onnxruntime_qnn.get_qnn_htp_path(), "soc_model": soc}
        options.add_provider_for_devices([device], paths)
        (found,) = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})
        steps = np.abs(found - right) / 4e-4
        place = np.unravel_index(steps.argmax(), steps.shape)
        print(
            f"{name} weights, soc_model {soc}: {steps.max():.0f} of 65535 steps off,",
            f"{found[place]:.4f} for {right[place]:.4f}",
        )
        faults += int(steps.max() > 40)
sys.exit(print("FAULT" if faults else "NO FAULT") or int(faults > 0))
