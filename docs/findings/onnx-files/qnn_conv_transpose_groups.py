"""int8 `ConvTranspose` of two groups with a scale for each channel. Exit status 1: the fault is there; 0: gone; 2: not checked.

The weight is of shape (4, 2, 3, 3), so axis 1, that of the output channels of a group, has two scales. On ONNX
Runtime's QNN provider the second group is computed with other scales. With equal scales, or one group, it is right.
onnxruntime.quantization writes such models with `per_channel=True`. The maker's simulator of the NPU runs it.
"""
import sys
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np, onnx, onnxruntime, onnxruntime_qnn
from onnx import TensorProto, helper, numpy_helper

print("onnxruntime", onnxruntime.__version__, "onnxruntime-qnn", onnxruntime_qnn.__version__, "simulated")
onnxruntime.register_execution_provider_library(onnxruntime_qnn.EP_NAME, onnxruntime_qnn.get_library_path())
device = next(each for each in onnxruntime.get_ep_devices() if each.ep_name == onnxruntime_qnn.EP_NAME)
x = (np.arange(4 * 25) * 37 % 256).reshape(1, 4, 5, 5).astype(np.uint8)
faults = 0
for groups, scales in ((1, (0.01, 0.003)), (2, (0.01, 0.01)), (2, (0.01, 0.003))):
    weight = (np.arange(4 * 2 * 9) * 53 % 255 - 127).reshape(4, 2, 3, 3).astype(np.int8)
    values = {
        "x_scale": np.float32(0.02), "x_zero": np.uint8(128), "w": weight, "w_scale": np.array(scales, np.float32),
        "w_zero": np.zeros(2, np.int8), "y_scale": np.float32(0.1), "y_zero": np.uint8(128),
    }  # fmt: skip
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "x_scale", "x_zero"], ["real"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["weight"], axis=1),
        helper.make_node("ConvTranspose", ["real", "weight"], ["result"], group=groups),
        helper.make_node("QuantizeLinear", ["result", "y_scale", "y_zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "y_scale", "y_zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 2 * groups, 7, 7))],
        [numpy_helper.from_array(np.asarray(value), key) for key, value in values.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    cpu = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (right,) = cpu.run(None, {"x": x})
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    options.add_provider_for_devices([device], {"backend_path": onnxruntime_qnn.get_qnn_htp_path()})
    (found,) = onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})
    steps = np.abs(found - right).max((0, 2, 3)) / 0.1
    print(f"{groups} groups, scales {scales}: steps off by channel {steps.round().astype(int).tolist()}")
    faults += int(steps.max() > 2)
sys.exit(print("FAULT" if faults else "NO FAULT") or int(faults > 0))
