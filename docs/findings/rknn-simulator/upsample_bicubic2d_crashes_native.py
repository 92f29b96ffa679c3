"""RKNN-Toolkit2: `interpolate(mode="bicubic")` ends the process (SIGSEGV)

A model of one node: Resize.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import signal, subprocess, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np, onnx, onnx.parser
from onnx.reference import ReferenceEvaluator
from rknn.api import RKNN

MODEL = """<ir_version: 9, opset_import: ["": 18]>
g (float[1, 1, 2, 2] x) => (float[1, 1, 4, 4] y) <float[4] scales = {1, 1, 2, 2}> {
  y = Resize <mode = "cubic", coordinate_transformation_mode = "half_pixel"> (x, "", scales)
}"""
FEEDS = {"x": np.arange(4, dtype="f").reshape(1, 1, 2, 2)}

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
