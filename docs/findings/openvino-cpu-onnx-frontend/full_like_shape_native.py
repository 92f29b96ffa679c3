"""ONNX initializers without elements in OpenVINO. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import sys
import traceback


def main():
    import numpy as np
    import onnx
    import openvino as ov
    from onnx import TensorProto, helper, numpy_helper

    print("openvino", ov.__version__, "onnx", onnx.__version__)
    x, wrong = np.arange(12, dtype="float32").reshape(2, 6), 0
    for operator, attributes, empty, right in (
        ("Gather", {"axis": 1}, np.zeros(0, "int64"), (2, 0)),
        ("Mul", {}, np.zeros((0, 1, 1), "float32"), (0, 2, 6)),
    ):
        graph = helper.make_graph(
            [helper.make_node(operator, ["x", "empty"], ["y"], **attributes)],
            operator,
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, right)],
            [numpy_helper.from_array(empty, "empty")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        onnx.checker.check_model(model, full_check=True)
        read = ov.Core().read_model(model.SerializeToString())
        (constant,) = (node for node in read.get_ordered_ops() if node.get_friendly_name() == "empty")
        compiled = ov.Core().compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        found = compiled([x])[0]
        print(f"{operator} with an initializer of shape {empty.shape}: OpenVINO reads {constant}")
        print(f"  and gives shape {found.shape}, {found.ravel()}; right is shape {right}")
        wrong += found.shape != right
    try:
        ov.Core().read_model(loop().SerializeToString())
        print("a Loop that appends to an initializer of shape (0,): OpenVINO reads it")
    except Exception as error:
        if "Accessing out-of-range dimension" not in str(error):
            raise
        print("a Loop that appends to an initializer of shape (0,): Accessing out-of-range dimension")
        wrong += 1
    return int(wrong > 0)


def loop():
    """A model that appends 0, 1, ... n - 1 to an empty list, as the exporter writes `embedding_bag(padding_idx=0)`."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def info(name, shape=(), dtype=TensorProto.INT64):
        return helper.make_tensor_value_info(name, dtype, shape)

    body = helper.make_graph(
        [
            helper.make_node("Reshape", ["i", "flat"], ["element"]),
            helper.make_node("Concat", ["list", "element"], ["longer"], axis=0),
            helper.make_node("Add", ["i", "one"], ["next"]),
            helper.make_node("Less", ["next", "n"], ["more"]),
        ],
        "body",
        [info("step"), info("on", (), TensorProto.BOOL), info("list", [None]), info("i")],
        [info("more", (), TensorProto.BOOL), info("longer", [None]), info("next")],
    )
    constants = {
        "empty": np.zeros(0, "int64"), "zero": np.int64(0), "one": np.int64(1), "flat": np.array([-1]), "yes": np.bool_(1),
    }
    graph = helper.make_graph(
        [helper.make_node("Loop", ["", "yes", "empty", "zero"], ["y", "last"], body=body)],
        "loop",
        [info("n")],
        [info("y", [None])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    if status != 2:
        print("FAULT" if status else "NO FAULT")
    sys.exit(status)
