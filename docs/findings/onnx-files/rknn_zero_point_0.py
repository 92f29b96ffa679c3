"""int8 zero points of 0 in a quantised ONNX model with RKNN-Toolkit2. Exit status 1: the fault is there; 0: gone; 2: not checked.

QuantizeLinear, a Conv whose kernel is the identity, QuantizeLinear: each integer goes through. The toolkit takes a scale
whose zero point is 0 for one that is 128/127 of it, of activations and of weights. Weights have the zero point 0
wherever they are quantised symmetrically. The same model with zero points of 1 is right (rk3588).
"""
import os, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np, onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from rknn.api import RKNN
SCALE = 0.0625
out = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the toolkit prints there
folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)  # and writes into the folder

print("rknn-toolkit2", version("rknn-toolkit2"), "onnx", onnx.__version__, "simulated", file=out)
x = ((np.arange(64) * 4 - 126) * SCALE).astype("float32").reshape(1, 4, 4, 4)
faults = 0
for of_activations, of_weights in ((1, 1), (0, 1), (1, 0), (0, 0)):
    values = {
        "scale": np.float32(SCALE), "zero": np.int8(of_activations), "weight_scale": np.float32(1 / 64),
        "weight_zero": np.int8(of_weights), "weight": np.eye(4, dtype="int8").reshape(4, 4, 1, 1) * 64 + np.int8(of_weights),
    }  # fmt: skip
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["xi"]),
        helper.make_node("DequantizeLinear", ["xi", "scale", "zero"], ["xf"]),
        helper.make_node("DequantizeLinear", ["weight", "weight_scale", "weight_zero"], ["wf"]),
        helper.make_node("Conv", ["xf", "wf"], ["yf"]),
        helper.make_node("QuantizeLinear", ["yf", "scale", "zero"], ["yi"]),
        helper.make_node("DequantizeLinear", ["yi", "scale", "zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)],
        [numpy_helper.from_array(array, name) for name, array in values.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    (right,) = ReferenceEvaluator(model).run(None, {"x": x})
    onnx.save(model, "model.onnx")
    rknn = RKNN(verbose=False)
    rknn.config(target_platform="rk3588")
    rknn.load_onnx("model.onnx")
    rknn.build(do_quantization=False)
    rknn.init_runtime()
    (found,) = rknn.inference([x], data_format="nchw")
    wrong = int((np.abs(found - right) > SCALE / 100).sum())
    first = f"{found.flat[0]:.6f} for {right.flat[0]:.6f}"
    print(f"zero points {of_activations}, of the weights {of_weights}: {wrong} of {x.size} wrong, the first is {first}", file=out)
    faults += wrong
sys.exit(print("FAULT" if faults else "NO FAULT", file=out) or int(faults > 0))
