"""ArgMin of uint8 in tinygrad. Exit status 1: the fault is there; 0: gone; 2: not checked."""

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
    node = helper.make_node("ArgMin", ["x"], ["y"], axis=1, keepdims=0)
    x = helper.make_tensor_value_info("x", TensorProto.UINT8, [1, 4])
    y = helper.make_tensor_value_info("y", TensorProto.INT64, [1])
    model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=[helper.make_opsetid("", 18)])
    onnx.checker.check_model(model)
    given = np.array([[0, 200, 3, 7]], "uint8")
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, f"{folder}/model.onnx")
        found = int(OnnxRunner(f"{folder}/model.onnx")({"x": Tensor(given)})["y"].numpy()[0])
    print("argmin of", given, "is", found, "right is", int(given.argmin()), "Tensor.argmin:", Tensor(given).argmin(1).numpy())
    fault = found != int(given.argmin())
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
