"""ConstantOfShape without the attribute value in RKNN-Toolkit2, simulated. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import sys
import tempfile
import traceback


def main():
    import numpy as np
    import onnx
    from importlib.metadata import version
    from onnx import TensorProto, helper, numpy_helper
    from onnx.reference import ReferenceEvaluator
    from rknn.api import RKNN

    print("rknn-toolkit2", version("rknn-toolkit2"), "onnx", onnx.__version__, "simulated")

    def run(nodes, operands, shape, initializers=None):
        """The result of the simulator, and that of ONNX's reference evaluator."""
        inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in operands.items()]
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)]
        constants = [numpy_helper.from_array(array, name) for name, array in (initializers or {}).items()]
        graph = helper.make_graph(nodes, "model", inputs, outputs, constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        onnx.checker.check_model(model, full_check=True)
        right = ReferenceEvaluator(model).run(None, operands)[0]
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(model, f"{folder}/model.onnx")
            rknn = RKNN(verbose=False)
            rknn.config(target_platform="rk3588")
            rknn.load_onnx(f"{folder}/model.onnx")
            rknn.build(do_quantization=False)
            rknn.init_runtime()
            return rknn.inference(list(operands.values()), data_format="nchw")[0], right

    operands = {"x": np.arange(12, dtype="f").reshape(4, 3)}
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["c"]), helper.make_node("Add", ["x", "c"], ["y"])]
    try:
        found, right = run(nodes, operands, (4, 3), {"s": np.array([3])})
    except ValueError as error:
        print(str(error).strip().splitlines()[-1])
        if "'numpy.ndarray' object has no attribute 'data_type'" not in str(error):
            raise
        fault = True
    else:
        print("found", found.tolist(), "right", right.tolist())
        fault = False
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
