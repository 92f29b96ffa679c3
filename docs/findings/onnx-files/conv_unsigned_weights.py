"""A quantised `Conv` with uint8 weights of zero point 0. Exit status 1: the fault is there; 0: gone; 2: not checked.

Each operand and the result are quantised by QuantizeLinear and DequantizeLinear. OpenVINO's CPU plugin has no kernel
for what it makes of them, so that the model does not compile, where the result is uint8 with another zero point than 0
and the activations are int8, or uint8 with another zero point than 0. Weights of int8, another zero point of the
weights, and a result that is not quantised, or is int8, compile.
"""
import sys
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np, onnx, openvino as ov
from onnx import TensorProto, helper, numpy_helper

print("openvino", ov.__version__, "onnx", onnx.__version__)
rng = np.random.default_rng(0)
fails = []
for dtype, zero in ((np.uint8, 0), (np.uint8, 128), (np.int8, 0)):
    values = {
        "x_scale": np.float32(0.03), "x_zero": np.uint8(128),
        "w": rng.integers(0, 128, (16, 8, 3, 3)).astype(dtype),
        "w_scale": np.float32(0.01), "w_zero": dtype(zero), "y_scale": np.float32(0.3), "y_zero": np.uint8(128),
    }  # fmt: skip
    nodes = [
        ("QuantizeLinear", ["x", "x_scale", "x_zero"], "xq"),
        ("DequantizeLinear", ["xq", "x_scale", "x_zero"], "xd"),
        ("DequantizeLinear", ["w", "w_scale", "w_zero"], "wd"), ("Conv", ["xd", "wd"], "c"),
        ("QuantizeLinear", ["c", "y_scale", "y_zero"], "q"), ("DequantizeLinear", ["q", "y_scale", "y_zero"], "y"),
    ]  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node(op, given, [result]) for op, given, result in nodes],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 9, 9])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 16, 7, 7])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    read = ov.Core().read_model(model.SerializeToString())
    try:
        ov.Core().compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    except RuntimeError as error:
        if "implementations.empty()" not in str(error):
            raise
        print(f"weights of {dtype.__name__} with zero point {zero}: does not compile: implementations.empty()")
        fails.append(zero)
        continue
    print(f"weights of {dtype.__name__} with zero point {zero}: compiles")
sys.exit(print("FAULT" if fails else "NO FAULT") or int(bool(fails)))
