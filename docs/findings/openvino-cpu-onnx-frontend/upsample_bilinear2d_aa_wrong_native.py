"""ONNX's Resize with antialias=1 in OpenVINO. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import sys
import traceback


def main():
    import numpy as np
    import onnx
    import onnx.reference
    import openvino as ov
    from onnx import TensorProto, helper

    print("openvino", ov.__version__, "onnx", onnx.__version__)
    x = np.random.default_rng(0).standard_normal((1, 2, 8, 8)).astype("float32")
    found, right = {}, {}
    for antialias in (0, 1):
        # exclude_outside=1 is the antialiasing of PyTorch and Pillow; without antialiasing it does not matter here.
        attributes = {"mode": "linear", "antialias": antialias, "exclude_outside": antialias}
        node = helper.make_node("Resize", ["x", "", "", "size"], ["y"], **attributes)
        graph = helper.make_graph(
            [node],
            "resize",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 4, 4])],
            [helper.make_tensor("size", TensorProto.INT64, [4], [1, 2, 4, 4])],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        read = ov.Core().read_model(model.SerializeToString())
        compiled = ov.Core().compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        found[antialias] = compiled([x])[0]
        (right[antialias],) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": x})
        error = np.abs(found[antialias] - right[antialias]).max()
        print(f"antialias={antialias}: OpenVINO differs from onnx.reference by {error:.2g}")
    print("OpenVINO's results with antialias=0 and 1 are", "equal" if np.array_equal(found[0], found[1]) else "not equal")
    if np.abs(found[0] - right[0]).max() > 1e-5:
        raise RuntimeError("it is another fault: the result without antialiasing is wrong")
    return int(np.abs(found[1] - right[1]).max() > 1e-3)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    if status != 2:
        print("FAULT" if status else "NO FAULT")
    sys.exit(status)
