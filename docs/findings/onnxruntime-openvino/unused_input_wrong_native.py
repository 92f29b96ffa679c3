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
    shape = [4]
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("a", "b")]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)]
    graph = helper.make_graph([helper.make_node("Exp", ["b"], ["y"])], "one", given, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    feeds = {"a": np.zeros(4, np.float32), "b": np.ones(4, np.float32)}
    (found,) = session(model, "OpenVINOExecutionProvider").run(None, feeds)
    (right,) = session(model, "CPUExecutionProvider").run(None, feeds)
    error = float(np.abs(found - np.exp(feeds["b"])).max() / np.e)
    print("exp(b): OpenVINO provider", found, "CPU provider", right, f"error {error:.3g}, limit 1e-6")
    print("FAULT" if error > 1e-6 else "NO FAULT")
    return int(error > 1e-6)


if __name__ == "__main__":
    try:
        status = main()
    except Exception as problem:
        print("It cannot be checked:", type(problem).__name__, problem)
        status = 2
    sys.exit(status)
