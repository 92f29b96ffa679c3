"""ConstantOfShape with a value and an empty shape in tinygrad. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import os
import sys
import traceback

os.environ["DEV"] = "CPU"


def main():
    from importlib.metadata import version

    import numpy as np
    import tempfile

    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from onnx.reference import ReferenceEvaluator
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner

    print("tinygrad", version("tinygrad"))
    def shape_of(value, sizes):
        """The shape that tinygrad gives; `value` of one element, or none."""
        given = {} if value is None else {"value": numpy_helper.from_array(np.array([value]))}
        nodes = [helper.make_node("ConstantOfShape", ["s"], ["y"], **given)]
        kind = TensorProto.FLOAT if value is None else helper.np_dtype_to_tensor_dtype(np.array(value).dtype)
        inputs, outputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])], [
            helper.make_tensor_value_info("y", kind, sizes)
        ]
        constant = numpy_helper.from_array(np.array(sizes, "int64"), "s")
        graph = helper.make_graph(nodes, "g", inputs, outputs, [constant])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
        onnx.checker.check_model(model, full_check=True)
        (right,) = ReferenceEvaluator(model).run(None, {"x": np.ones(1, "float32")})
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(model, f"{folder}/model.onnx")
            found = OnnxRunner(f"{folder}/model.onnx")({"x": Tensor([1.0])})["y"].shape
        print("value", value, "shape", sizes, "gives", found, "the reference evaluator", right.shape)
        return found == right.shape

    right = shape_of(None, []), shape_of(5, [2]), shape_of(np.float64(0), [2, 3])
    assert all(right), "another fault"
    fault = not all([shape_of(5, []), shape_of(np.float64(0), [])])
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
