"""ReduceMin of a row with NaN in ONNX Runtime. Exit status 1: the fault is there; 0: gone; 2: not checked."""

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

    x = np.array([[np.nan, 1, 2], [1, np.nan, 2], [1, 2, np.nan]], "float32")
    axis = helper.make_tensor("axis", TensorProto.INT64, [1], [1])
    found = run([helper.make_node("ReduceMin", ["x", "axis"], ["y"], keepdims=0)], {"x": x}, [axis])
    print("rows", x.tolist(), "their least", found, "of which NaN:", int(np.isnan(found).sum()), "of 3")
    fault = len(set(np.isnan(found).tolist())) > 1  # the place of NaN must not matter
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
