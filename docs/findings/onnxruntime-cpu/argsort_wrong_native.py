"""ONNX Runtime's TopK drops finite values where one is NaN. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import sys
import traceback


def main():
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    print("onnx", onnx.__version__, "onnxruntime", onnxruntime.__version__)
    made = lambda name, dtype, size: helper.make_tensor_value_info(name, dtype, [size])
    x = np.array([1, np.nan, 3, 2], dtype=np.float32)
    faults = 0
    for k in (2, 4):
        graph = helper.make_graph(
            [helper.make_node("TopK", ["x", "k"], ["values", "indices"], largest=1, sorted=1)],
            "topk",
            [made("x", TensorProto.FLOAT, 4)],
            [made("values", TensorProto.FLOAT, k), made("indices", TensorProto.INT64, k)],
            [helper.make_tensor("k", TensorProto.INT64, [1], [k])],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        values, _ = session.run(None, {"x": x})
        finite = values[np.isfinite(values)]
        possible = [[3.0, 2.0, 1.0][: len(finite)]]  # wherever NaN is placed, the largest finite ones come first
        print("the", k, "largest of", x, "are", values, "finite ones", finite, "should be", possible[0])
        faults += finite.tolist() not in possible
    print(faults, "of 2 wrong")
    print("FAULT" if faults else "NO FAULT")
    return int(faults > 0)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
