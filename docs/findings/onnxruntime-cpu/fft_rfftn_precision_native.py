"""ONNX Runtime's DFT of lengths that are no power of two. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import sys
import traceback


def main():
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    print("onnx", onnx.__version__, "onnxruntime", onnxruntime.__version__)
    worst = {}
    for n in (128, 1000, 1024, 4095, 4096):
        graph = helper.make_graph(
            [helper.make_node("DFT", ["x", "", "axis"], ["y"], onesided=1)],
            "dft",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, n, 1])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [helper.make_tensor("axis", TensorProto.INT64, [], [1])],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
        (y,) = session.run(None, {"x": x.reshape(1, n, 1)})
        exact = np.fft.rfft(x.astype(np.float64))
        worst[n] = np.abs(y[0, :, 0] + 1j * y[0, :, 1] - exact).max() / np.abs(exact).max()
        print(f"length {n}: error {worst[n]:.1e} of the largest magnitude")
    fault = worst[1000] > 1e-5 or worst[4095] > 1e-5
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
