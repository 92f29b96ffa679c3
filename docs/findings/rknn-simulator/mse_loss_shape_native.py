"""RKNN-Toolkit2: a result without dimensions comes back as [1] where elementwise operators follow a reduction: `mse_loss`, `var`

A model of 2 nodes: ReduceSum, Mul.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np, onnx, onnx.parser
from onnx.reference import ReferenceEvaluator
from rknn.api import RKNN

MODEL = """<ir_version: 9, opset_import: ["": 18]>
g (float[1] x) => (float y) <float two = {2}> {
  s = ReduceSum <keepdims: int = 0> (x)
  y = Mul (s, two)
}"""
FEEDS = {"x": np.ones(1, "f")}

model = onnx.parser.parse_model(MODEL)
onnx.checker.check_model(model, full_check=True)
right = ReferenceEvaluator(model).run(None, FEEDS)[0]
print("rknn-toolkit2", version("rknn-toolkit2"), "onnx", onnx.__version__, "simulated")
with tempfile.TemporaryDirectory() as folder:
    onnx.save(model, f"{folder}/model.onnx")
    rknn = RKNN(verbose=False)
    steps = [rknn.config(target_platform="rk3588"), rknn.load_onnx(f"{folder}/model.onnx")]
    steps += [rknn.build(do_quantization=False), rknn.init_runtime()]
    found = None if any(steps) else rknn.inference([*FEEDS.values()], data_format="nchw")
assert found, f"config, load_onnx, build and init_runtime returned {steps}"
print("found", found[0].shape, found[0].tolist(), "right", right.shape, right.tolist())
fault = found[0].shape != right.shape or not np.allclose(found[0], right, 1e-2)
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
