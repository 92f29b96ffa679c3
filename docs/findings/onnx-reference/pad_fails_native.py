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
    made = [helper.make_tensor_value_info(n, kind, [None, None]) for n, kind in outputs.items()]
    model = helper.make_model(helper.make_graph([node], "one", given, made), opset_imports=[helper.make_opsetid("", 20)])
    onnx.checker.check_model(model, full_check=True)
    return onnx.reference.ReferenceEvaluator(model).run(None, operands)


def main():
    x = {"x": np.zeros((4, 8), np.float32), "p": np.array([0, -1, 0, -1])}
    node = helper.make_node("Pad", ["x", "p"], ["y"])
    try:
        found = evaluate(node, x, {"y": TensorProto.FLOAT})
    except ValueError as problem:
        print("raised:", type(problem).__name__, problem)
        fault = "index can't contain negative values" in str(problem)
        print("FAULT" if fault else "It is another failure than the one that this script shows.")
        return 1 if fault else 2
    print("runs it:", found[0].shape)
    print("NO FAULT")
    return 0


if __name__ == "__main__":
    try:
        print("onnx", onnx.__version__)
        status = main()
    except Exception as problem:
        print("It cannot be checked:", type(problem).__name__, problem)
        status = 2
    sys.exit(status)
