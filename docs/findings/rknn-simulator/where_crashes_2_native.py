"""RKNN-Toolkit2: `where(x > y, x, y)` of int32 ends the process (SIGFPE)

A model of 2 nodes: Greater, Where.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import signal, subprocess, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np, onnx, onnx.parser
from onnx.reference import ReferenceEvaluator
from rknn.api import RKNN

MODEL = """<ir_version: 9, opset_import: ["": 18]>
g (int32[4, 16] a, int32[4, 16] b) => (int32[4, 16] y) {
  more = Greater (a, b)
  y = Where (more, a, b)
}"""
FEEDS = {"a": np.arange(64, dtype="int32").reshape(4, 16), "b": np.full((4, 16), 30, "int32")}

model = onnx.parser.parse_model(MODEL)
onnx.checker.check_model(model, full_check=True)
right = ReferenceEvaluator(model).run(None, FEEDS)[0]
if sys.argv[1:]:  # in a process of its own
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, f"{folder}/model.onnx")
        rknn = RKNN(verbose=False)
        steps = [rknn.config(target_platform="rk3588"), rknn.load_onnx(f"{folder}/model.onnx")]
        steps += [rknn.build(do_quantization=False), rknn.init_runtime()]
        found = None if any(steps) else rknn.inference([*FEEDS.values()], data_format="nchw")
    sys.exit()
print("rknn-toolkit2", version("rknn-toolkit2"), "onnx", onnx.__version__, "simulated")
print("right", right.ravel()[:4].tolist())
status = subprocess.run([sys.executable, __file__, "run"], timeout=300).returncode
fault = status < 0
print("RKNN-Toolkit2", f"ends with {signal.Signals(-status).name}" if fault else "runs it" if status == 0 else "fails in another way")
if status > 0:
    sys.exit(print("Another failure than the one that this script shows.") or 2)
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
