"""Pad, then MaxPool with a padding of its own, in RKNN-Toolkit2, simulated. Exit status 1: the fault is there; 0: gone; 2: not checked."""
import sys, tempfile
from importlib.metadata import version

sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np, onnx, onnx.parser
from onnx.reference import ReferenceEvaluator
from rknn.api import RKNN

MODEL = """<ir_version: 9, opset_import: ["": 18]>
g (float[1, 1, 6, 6] x) => (float[1, 1, 4, 4] y) <int64[8] pads = {0, 0, 1, 1, 0, 0, 1, 1}> {
  z = Pad <mode = "MODE"> (x, pads)
  y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (z)
}"""

print("rknn-toolkit2", version("rknn-toolkit2"), "onnx", onnx.__version__, "simulated")
x, fault = -np.arange(1, 37, dtype="f").reshape(1, 1, 6, 6), False
for mode, rules in (("constant", ["fuse_pad_into_maxpool"]), ("constant", []), ("reflect", [])):
    model = onnx.parser.parse_model(MODEL.replace("MODE", mode))
    onnx.checker.check_model(model, full_check=True)
    right = ReferenceEvaluator(model).run(None, {"x": x})[0]
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, f"{folder}/model.onnx")
        rknn = RKNN(verbose=False)
        steps = [rknn.config(target_platform="rk3588", disable_rules=rules), rknn.load_onnx(f"{folder}/model.onnx")]
        steps += [rknn.build(do_quantization=False), rknn.init_runtime()]
        found = rknn.inference([x], data_format="nchw")[0]
    print(mode, "without", rules, "found", found[0, 0, 0].tolist(), "right", right[0, 0, 0].tolist())
    fault |= bool(np.abs(found - right).max() > 0.5)
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
