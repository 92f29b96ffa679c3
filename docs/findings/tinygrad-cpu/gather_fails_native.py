"""tinygrad: `Gather` with constant indices of two dimensions fails. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import sys
import tempfile
import traceback


def main():
    from importlib.metadata import version

    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner

    print("tinygrad", version("tinygrad"), "onnx", onnx.__version__)
    table, fault = np.arange(40, dtype="f").reshape(10, 4), False
    for indices in (np.array([3, 1]), np.array([[3, 1]])):  # a position embedding has one row of indices
        output = helper.make_tensor_value_info("y", TensorProto.FLOAT, (*indices.shape, 4))
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, table.shape)]
        node, constant = helper.make_node("Gather", ["x", "i"], ["y"]), numpy_helper.from_array(indices, "i")
        graph = helper.make_graph([node], "model", inputs, [output], [constant])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        onnx.checker.check_model(model, full_check=True)
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(model, f"{folder}/model.onnx")
            try:
                found = OnnxRunner(f"{folder}/model.onnx")({"x": Tensor(table)})["y"].numpy()
                print("indices", indices.tolist(), "right" if np.array_equal(found, table[indices]) else "wrong")
            except TypeError as error:
                if "not supported between instances of 'list' and 'int'" not in str(error):
                    raise
                print("indices", indices.tolist(), "raised: TypeError", error)
                fault = True
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
