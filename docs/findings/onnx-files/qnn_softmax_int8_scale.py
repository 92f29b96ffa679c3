"""int8 `Softmax` between DequantizeLinear and QuantizeLinear. Exit status 1: the fault is there; 0: gone; 2: not checked.

The result has the scale 1/127 and the zero point 0, as onnxruntime.quantization writes it for int8 activations with
`ActivationSymmetric`. On ONNX Runtime's QNN provider the probabilities are negative: as if the zero point were -128.
With 1/256 and -128 they are right. The maker's simulator of the NPU runs it.
"""
import sys
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np, onnx, onnxruntime, onnxruntime_qnn
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

print("onnxruntime", onnxruntime.__version__, "onnxruntime-qnn", onnxruntime_qnn.__version__, "simulated")
x = np.array([[0, 10, 20, 60]], np.int8)
onnxruntime.register_execution_provider_library(onnxruntime_qnn.EP_NAME, onnxruntime_qnn.get_library_path())
device = next(each for each in onnxruntime.get_ep_devices() if each.ep_name == onnxruntime_qnn.EP_NAME)
faults = 0
for scale, zero in ((1 / 127, 0), (1 / 256, -128)):
    values = {
        "x_scale": np.float32(0.05), "x_zero": np.int8(0), "y_scale": np.float32(scale), "y_zero": np.int8(zero),
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "x_scale", "x_zero"], ["real"]),
        helper.make_node("Softmax", ["real"], ["p"], axis=-1),
        helper.make_node("QuantizeLinear", ["p", "y_scale", "y_zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "y_scale", "y_zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT8, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    (right,) = ReferenceEvaluator(model).run(None, {"x": x})
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices([device], {"backend_path": onnxruntime_qnn.get_qnn_htp_path()})
    (found,) = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})
    print(f"scale {scale:.5f}, zero point {zero}: found {found.round(3).tolist()} right {right.round(3).tolist()}")
    faults += int(np.abs(found - right).max() > 2 * scale)
sys.exit(print("FAULT" if faults else "NO FAULT") or int(faults > 0))
