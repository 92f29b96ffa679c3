"""Pad with zeros before MaxPool in ONNX Runtime. Exit status 1: the fault is there; 0: gone; 2: not checked."""

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

    x = -1 - np.random.default_rng(0).random((1, 2, 6, 6), dtype="float32")
    pads = helper.make_tensor("pads", TensorProto.INT64, [8], [0, 0, 1, 1, 0, 0, 1, 1])
    nodes = [
        helper.make_node("Pad", ["x", "pads"], ["padded"]),
        helper.make_node("MaxPool", ["padded"], ["y"], kernel_shape=[3, 3]),
    ]
    found = run(nodes, {"x": x}, [pads])
    plain = run(nodes, {"x": x}, [pads], onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    print("corner:", found[0, 0, 0, 0], "without optimisations:", plain[0, 0, 0, 0], "right: 0.0")
    fault = found[0, 0, 0, 0] != 0
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
