"""The axis of ONNX's DFT (opset 20) in OpenVINO. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import sys
import traceback


def main():
    import numpy as np
    import onnx
    import openvino as ov
    from onnx import TensorProto, helper

    print("openvino", ov.__version__, "onnx", onnx.__version__)
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 2)).astype("float32")
    wrong = []
    for axis in (0, 1, 2, -2, None):
        names = ["x"] if axis is None else ["x", "", "axis"]
        axes = [] if axis is None else [helper.make_tensor("axis", TensorProto.INT64, [], [axis])]
        graph = helper.make_graph(
            [helper.make_node("DFT", names, ["y"])],
            "dft",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)],
            axes,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        onnx.checker.check_model(model, full_check=True)
        read = ov.Core().read_model(model.SerializeToString())
        compiled = ov.Core().compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        found = compiled([x])[0]
        place = {None: 2, -2: 2}.get(axis, axis)  # an axis that is not given is -2, the last one of the signal
        right = np.fft.fft(x[..., 0] + 1j * x[..., 1], axis=place)
        error = np.abs(found[..., 0] + 1j * found[..., 1] - right).max() / np.abs(right).max()
        print(f"axis {axis}: error {error:.1e} of the largest magnitude")
        wrong += [axis] if error > 1e-4 else []
    return int(bool(wrong))


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    if status != 2:
        print("FAULT" if status else "NO FAULT")
    sys.exit(status)
