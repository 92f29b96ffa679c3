"""The shapes of ONNX's DFT with onesided=1 in OpenVINO. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import sys
import traceback


def main():
    import numpy as np
    import onnx
    import openvino as ov
    from onnx import TensorProto, helper

    print("openvino", ov.__version__, "onnx", onnx.__version__)
    wrong = 0
    # ONNX: a real signal has a last dimension of 1, in the input of onesided=1 and in the output of its inverse.
    for inverse, given, right in ((0, (2, 5, 1), (2, 3, 2)), (1, (2, 4, 2), (2, 6, 1))):
        graph = helper.make_graph(
            [helper.make_node("DFT", ["x"], ["y"], axis=1, onesided=1, inverse=inverse)],
            "dft",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, given)],
            [helper.make_empty_tensor_value_info("y")],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        read = ov.Core().read_model(model.SerializeToString())
        compiled = ov.Core().compile_model(read, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        found = compiled([np.ones(given, "float32")])[0].shape
        print(f"onesided=1, inverse={inverse} of {given}: OpenVINO gives {found}, right is {right}")
        wrong += found != right
    return int(wrong > 0)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    if status != 2:
        print("FAULT" if status else "NO FAULT")
    sys.exit(status)
