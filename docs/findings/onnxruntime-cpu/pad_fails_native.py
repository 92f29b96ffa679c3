"""Pad in mode wrap of a batch of no images in ONNX Runtime. Exit status 1: the fault is there; 0: gone; 2: not checked."""

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

    pads = helper.make_tensor("pads", TensorProto.INT64, [8], [0, 0, 1, 1, 0, 0, 1, 1])
    x = np.zeros((0, 3, 3, 3), "float32")
    fault = False
    for mode in ("reflect", "wrap"):
        try:
            print(mode, "gives", run([helper.make_node("Pad", ["x", "pads"], ["y"], mode=mode)], {"x": x}, [pads]).shape)
        except onnxruntime.capi.onnxruntime_pybind11_state.Fail as problem:
            print(mode, "fails:", str(problem)[-200:])
            if "Unexpected mode of" not in str(problem):
                raise
            fault = True
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
