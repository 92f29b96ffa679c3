"""`QLinearMatMul` with a scale for each column. Exit status 1: the fault is there; 0: gone; 2: not checked.

ONNX: scale and zero point of `b` are scalars, or have one element for each column. OpenVINO's ONNX front end takes
them as scalars only, so that the model does not convert. onnxruntime.quantization writes such models (QOperator,
per_channel=True).
"""

import sys
import traceback


def main():
    import numpy as np
    import onnx
    import openvino as ov
    from onnx import TensorProto, helper, numpy_helper
    from onnx.reference import ReferenceEvaluator

    print("openvino", ov.__version__, "onnx", onnx.__version__)
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (4, 8), dtype=np.uint8), rng.integers(-127, 128, (8, 3)).astype(np.int8)
    values = {
        "a_scale": np.float32(0.05), "a_zero": np.uint8(128), "b": b,
        "b_scale": np.array([0.01, 0.02, 0.03], np.float32), "b_zero": np.zeros(3, np.int8),
        "y_scale": np.float32(0.5), "y_zero": np.uint8(128),
    }  # fmt: skip
    graph = helper.make_graph(
        [helper.make_node("QLinearMatMul", ["a", *values], ["y"])],
        "g",
        [helper.make_tensor_value_info("a", TensorProto.UINT8, a.shape)],
        [helper.make_tensor_value_info("y", TensorProto.UINT8, [4, 3])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in values.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    (right,) = ReferenceEvaluator(model).run(None, {"a": a})
    try:
        read = ov.Core().read_model(model.SerializeToString())
    except RuntimeError as error:
        if "Scalar value can't be derived" not in str(error):
            raise
        print("does not convert:", next(line for line in str(error).splitlines() if "Scalar value" in line).strip())
        return 1
    found = ov.Core().compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})({"a": a})[0]
    apart = np.abs(found.astype(int) - right.astype(int)).max()
    print(f"at most {apart} steps of the result from ONNX's reference evaluator")
    return int(apart > 1)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    if status != 2:
        print("FAULT" if status else "NO FAULT")
    sys.exit(status)
