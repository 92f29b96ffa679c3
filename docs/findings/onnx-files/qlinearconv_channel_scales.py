"""`QLinearConv` with a scale for each output channel. Exit status 1: the fault is there; 0: gone; 2: not checked.

ONNX: `w_scale` is a scalar, or has one element for each output channel (the first dimension of the weight). OpenVINO
takes them along the second dimension: with as many input channels as output channels the result is wrong without a
message, with other numbers the model does not convert. onnxruntime.quantization writes such models (QOperator,
per_channel=True).
"""
import sys
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np, onnx, openvino as ov
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

def _exact(x, values):
    """The convolution in float64, quantised."""
    wide = np.lib.stride_tricks.sliding_window_view(x.astype(float) - 128, (3, 3), axis=(2, 3))
    sums = np.einsum("nchwij,ocij->nohw", wide, values["w"].astype(float))
    scale = float(values["x_scale"]) * values["w_scale"].astype(float) / float(values["y_scale"])
    return np.clip(np.rint(sums * scale[None, :, None, None]) + 128, 0, 255).astype(int)

print("openvino", ov.__version__, "onnx", onnx.__version__)
rng = np.random.default_rng(0)
faults = 0
for channels in (8, 16):
    weight = rng.integers(-127, 128, (8, channels, 3, 3)).astype(np.int8)
    x = rng.integers(0, 256, (1, channels, 6, 6), dtype=np.uint8)
    values = {
        "x_scale": np.float32(0.02), "x_zero": np.uint8(128), "w": weight,
        "w_scale": np.linspace(0.001, 0.02, 8, dtype=np.float32), "w_zero": np.zeros(8, np.int8),
        "y_scale": np.float32(0.5), "y_zero": np.uint8(128),
    }  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node("QLinearConv", ["x", *values], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [1, 8, 4, 4])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    (right,) = ReferenceEvaluator(model).run(None, {"x": x})
    exact = _exact(x, values)
    assert np.abs(right.astype(int) - exact).max() <= 1, "the reference evaluator is right"
    try:
        read = ov.Core().read_model(model.SerializeToString())
        found = ov.Core().compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})({"x": x})[0]
    except RuntimeError as error:
        line = next(line for line in str(error).splitlines() if "scale" in line)
        print(f"{channels} input channels, 8 output channels: does not convert: {line.strip()}")
        faults += 1
        continue
    apart = np.abs(found.astype(int) - exact)
    print(
        f"{channels} input channels, 8 output channels: {(apart > 1).sum()} of {apart.size} elements are wrong, "
        f"by up to {apart.max()} steps of the result"
    )
    faults += int((apart > 1).any())
sys.exit(print("FAULT" if faults else "NO FAULT") or int(faults > 0))
