import sys

try:
    import numpy as np
    import onnx.reference
    from onnx import TensorProto, helper
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)


def evaluate(node, operands, outputs):
    """Runs a model of one node in the reference evaluator."""
    given = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in operands.items()]
    made = [helper.make_tensor_value_info(n, kind, [None, None, None]) for n, kind in outputs.items()]
    model = helper.make_model(helper.make_graph([node], "one", given, made), opset_imports=[helper.make_opsetid("", 20)])
    onnx.checker.check_model(model, full_check=True)
    return onnx.reference.ReferenceEvaluator(model).run(None, operands)


def main():
    x = {"x": np.arange(1, 9, dtype=np.float32).reshape(1, 1, 8)}
    node = helper.make_node("AveragePool", ["x"], ["y"], kernel_shape=[5], strides=[5], ceil_mode=1)
    found = evaluate(node, x, {"y": TensorProto.FLOAT})[-1]
    right = np.array([3.0, 7.0])
    error = float(np.abs(found - right).max() / np.abs(right).max())
    print("found", found.ravel(), "right", np.ravel(right), f"error {error:.3g} of the largest magnitude, limit 1e-6")
    print("FAULT" if error > 1e-6 else "NO FAULT")
    return int(error > 1e-6)


if __name__ == "__main__":
    try:
        print("onnx", onnx.__version__)
        status = main()
    except Exception as problem:
        print("It cannot be checked:", type(problem).__name__, problem)
        status = 2
    sys.exit(status)
