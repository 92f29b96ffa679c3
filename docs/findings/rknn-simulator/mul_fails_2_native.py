"""RKNN-Toolkit2: `x * 2` and `x + 1` of five dimensions, all larger than 1, do not build

A model of 3 nodes: Sigmoid, Mul, Add.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np, onnx, onnx.parser
from onnx.reference import ReferenceEvaluator
from rknn.api import RKNN

MODEL = """<ir_version: 9, opset_import: ["": 18]>
g (float[2, 3, 4, 5, 6] x) => (float[2, 3, 4, 5, 6] y) <float two = {2}> {
  s = Sigmoid (x)
  d = Mul (x, two)
  y = Add (s, d)
}"""
FEEDS = {"x": np.ones((2, 3, 4, 5, 6), "f")}

model = onnx.parser.parse_model(MODEL)
onnx.checker.check_model(model, full_check=True)
right = ReferenceEvaluator(model).run(None, FEEDS)[0]
print("rknn-toolkit2", version("rknn-toolkit2"), "onnx", onnx.__version__, "simulated")
fault, log = False, tempfile.TemporaryFile()
os.dup2(log.fileno(), 2)  # there it reports
try:
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, f"{folder}/model.onnx")
        rknn = RKNN(verbose=False)
        steps = [rknn.config(target_platform="rk3588"), rknn.load_onnx(f"{folder}/model.onnx")]
        steps += [rknn.build(do_quantization=False), rknn.init_runtime()]
        found = None if any(steps) else rknn.inference([*FEEDS.values()], data_format="nchw")
    assert found, f"config, load_onnx, build and init_runtime returned {steps}"
    print("found", found[0].ravel()[:4].tolist(), "right", right.ravel()[:4].tolist())
except Exception as problem:
    printed = log.seek(0) or log.read().decode(errors="replace")
    print("raised:", type(problem).__name__, str(problem)[-300:])
    if "'IRGraph' object has no attribute 'node_use_target_const'" not in str(problem) + printed:
        sys.exit(print("Another failure than the one that this script shows.") or 2)
    print("'IRGraph' object has no attribute 'node_use_target_const'")
    fault = True
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
