import sys

try:
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)


def session(model, provider):
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=[provider], enable_fallback=0)


def main():
    print("onnxruntime", onnxruntime.__version__)
    if "OpenVINOExecutionProvider" not in onnxruntime.get_available_providers():
        print("It cannot be checked: this onnxruntime has no OpenVINO provider")
        return 2
    given = [helper.make_tensor_value_info("a", TensorProto.FLOAT, [4])]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4]), helper.make_tensor_value_info("z", TensorProto.FLOAT, [1])]
    constant = helper.make_node("Constant", [], ["z"], value=helper.make_tensor("t", TensorProto.FLOAT, [1], [0.0]))
    graph = helper.make_graph([helper.make_node("Exp", ["a"], ["y"]), constant], "one", given, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    session(model, "CPUExecutionProvider").run(None, {"a": np.ones(4, np.float32)})
    try:
        session(model, "OpenVINOExecutionProvider").run(None, {"a": np.ones(4, np.float32)})
    except Exception as problem:
        print("raised:", type(problem).__name__, str(problem)[-200:])
        fault = "not found in graph cache" in str(problem)
        print("FAULT" if fault else "It is another failure than the one that this script shows.")
        return 1 if fault else 2
    print("NO FAULT")
    return 0


if __name__ == "__main__":
    try:
        status = main()
    except Exception as problem:
        print("It cannot be checked:", type(problem).__name__, problem)
        status = 2
    sys.exit(status)
