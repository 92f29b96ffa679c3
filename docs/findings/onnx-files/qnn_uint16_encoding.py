"""uint16 `Tanh` and `Sigmoid` whose integers are the model's output. Exit status 1: the fault is there; 0: gone; 2: not
checked.

The output is QuantizeLinear's, with a scale and a zero point of the model's own. On ONNX Runtime's QNN provider it holds
the integers of another encoding: 1/32768 and 32768 for Tanh. Behind a DequantizeLinear the values are right. The maker's
simulator of the NPU runs it.
"""
import sys
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np, onnx, onnxruntime, onnxruntime_qnn
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

print("onnxruntime", onnxruntime.__version__, "onnxruntime-qnn", onnxruntime_qnn.__version__, "simulated")
x = np.array([[0, 20000, 30000, 36000, 60000]], np.uint16)
onnxruntime.register_execution_provider_library(onnxruntime_qnn.EP_NAME, onnxruntime_qnn.get_library_path())
device = next(each for each in onnxruntime.get_ep_devices() if each.ep_name == onnxruntime_qnn.EP_NAME)
faults = 0
for op, scale, zero in (("Tanh", 1 / 30000, 32000), ("Sigmoid", 1 / 50000, 1000), ("Relu", 1 / 20000, 1000)):
    values = {
        "x_scale": np.float32(1e-4), "x_zero": np.uint16(30000), "y_scale": np.float32(scale),
        "y_zero": np.uint16(zero),
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "x_scale", "x_zero"], ["real"]),
        helper.make_node(op, ["real"], ["p"]),
        helper.make_node("QuantizeLinear", ["p", "y_scale", "y_zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.UINT16, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.UINT16, x.shape)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    (right,) = ReferenceEvaluator(model).run(None, {"x": x})
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices([device], {"backend_path": onnxruntime_qnn.get_qnn_htp_path()})
    (found,) = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})
    print(f"{op}: scale {scale:.3g}, zero point {zero}: found {found.tolist()} right {right.tolist()}")
    # Its functions of 16 bits have the accuracy of float16: 64 steps of the range.
    faults += int(np.abs(found.astype(int) - right.astype(int)).max() > 64)
sys.exit(print("FAULT" if faults else "NO FAULT") or int(faults > 0))
