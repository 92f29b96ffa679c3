"""MaxPool of a window with NaN in ONNX Runtime. Exit status 1: the fault is there; 0: gone; 2: not checked."""

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

    x = np.arange(16, dtype="float32").reshape(1, 1, 4, 4)
    x[0, 0, 0, 0] = np.nan
    found = run([helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])], {"x": x})
    moved = x[:, :, :, ::-1].copy()
    other = run([helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])], {"x": moved})
    print("found", found.tolist(), "with NaN at another place of its window", other.tolist(), "right for both: NaN")
    fault = not (np.isnan(found[0, 0, 0, 0]) and np.isnan(other[0, 0, 0, 1]))
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
