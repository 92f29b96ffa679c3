"""A transposed matrix times a vector in ONNX Runtime. Exit status 1: the fault is there; 0: gone; 2: not checked."""

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
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = level
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, operands)[0]

    random = np.random.default_rng(0)
    a, v = random.random((4, 3), dtype="float32"), random.random(4, dtype="float32")
    nodes = [helper.make_node("Transpose", ["a"], ["turned"], perm=[1, 0]), helper.make_node("MatMul", ["turned", "v"], ["y"])]
    found = run(nodes, {"a": a, "v": v})
    plain = run(nodes, {"a": a, "v": v}, level=onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    print("Transpose, MatMul: found", found, "without optimisations", plain, "right", a.T @ v)
    fused = [helper.make_node("FusedMatMul", ["a", "v"], ["y"], domain="com.microsoft", transA=1)]
    kernel = run(fused, {"a": a, "v": v}, level=onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    print("FusedMatMul(transA=1) without optimisations:", kernel, "right", a.T @ v)
    print("a.reshape(3, 4) @ v:", a.reshape(3, 4) @ v)
    fault = min(np.abs(found - a.T @ v).max(), np.abs(kernel - a.T @ v).max()) > 1e-3
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
