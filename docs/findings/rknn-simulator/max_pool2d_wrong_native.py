"""Pad, then MaxPool with a padding of its own, in RKNN-Toolkit2, simulated. Exit status 1: the fault is there; 0: gone; 2: not checked."""

import sys
import tempfile
import traceback


def main():
    import numpy as np
    import onnx
    from importlib.metadata import version
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator
    from rknn.api import RKNN

    print("rknn-toolkit2", version("rknn-toolkit2"), "onnx", onnx.__version__, "simulated")

    def run(mode, rules):
        """The result of the simulator, and that of ONNX's reference evaluator."""
        pads = helper.make_tensor("pads", TensorProto.INT64, [8], [0, 0, 1, 1, 0, 0, 1, 1])
        nodes = [
            helper.make_node("Constant", [], ["pads"], value=pads),
            helper.make_node("Pad", ["x", "pads"], ["z"], mode=mode),
            helper.make_node("MaxPool", ["z"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        ]
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 6, 6])]
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 4, 4])]
        model = helper.make_model(
            helper.make_graph(nodes, "model", inputs, outputs), opset_imports=[helper.make_opsetid("", 18)], ir_version=9
        )
        onnx.checker.check_model(model, full_check=True)
        operand = -np.arange(1, 37, dtype="f").reshape(1, 1, 6, 6)
        right = ReferenceEvaluator(model).run(None, {"x": operand})[0]
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(model, f"{folder}/model.onnx")
            rknn = RKNN(verbose=False)
            rknn.config(target_platform="rk3588", disable_rules=rules)
            rknn.load_onnx(f"{folder}/model.onnx")
            rknn.build(do_quantization=False)
            rknn.init_runtime()
            return rknn.inference([operand], data_format="nchw")[0], right

    fault = False
    for mode, rules in (("constant", ["fuse_pad_into_maxpool"]), ("constant", []), ("reflect", [])):
        found, right = run(mode, rules)
        print(mode, "without", rules, "found", found[0, 0, 0].tolist(), "right", right[0, 0, 0].tolist())
        fault |= bool(np.abs(found - right).max() > 0.5)
    print("FAULT" if fault else "NO FAULT")
    return int(fault)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
