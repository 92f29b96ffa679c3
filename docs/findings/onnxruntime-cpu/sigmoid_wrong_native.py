"""Sigmoid of large negative numbers in ONNX Runtime. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import sys
import traceback


def main():
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    print("onnx", onnx.__version__, "onnxruntime", onnxruntime.__version__)

    def run(nodes, operands, initializers=(), level=onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL):
        inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in operands.items()]
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
        graph = helper.make_graph(nodes, "model", inputs, outputs, list(initializers))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return session.run(None, operands)[0]

    x = np.array([-8, -15, -17, -20, -50], "float32")
    found = run([helper.make_node("Sigmoid", ["x"], ["y"])], {"x": x})
    right = 1 / (1 + np.exp(-x.astype("float64")))
    print("x", x, "found", found, "right", right, "relative error", np.abs(found / right - 1))
    fault = np.abs(found / right - 1).max() > 1e-3
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
