"""ScatterND, whose operand is used again, in tinygrad. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import os
import sys
import traceback

os.environ["DEV"] = "CPU"


def main():
    from importlib.metadata import version

    import numpy as np
    import tempfile

    import onnx
    from onnx import TensorProto, helper
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner

    print("tinygrad", version("tinygrad"))
    nodes = [helper.make_node("ScatterND", ["x", "i", "u"], ["s"]), helper.make_node("Identity", ["x"], ["y"])]
    shapes = {"x": (TensorProto.FLOAT, [3]), "i": (TensorProto.INT64, [1, 1]), "u": (TensorProto.FLOAT, [1])}
    inputs = [helper.make_tensor_value_info(name, *shape) for name, shape in shapes.items()]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in ("s", "y")]
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 18)])
    onnx.checker.check_model(model)
    given = {"x": np.array([1, 2, 3], "float32"), "i": np.array([[1]]), "u": np.array([10], "float32")}
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, f"{folder}/model.onnx")
        found = OnnxRunner(f"{folder}/model.onnx")({name: Tensor(value) for name, value in given.items()})
        copy = found["y"].numpy()
    print("x is", given["x"], "Identity(x) is", copy)
    fault = not np.array_equal(copy, given["x"])
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
