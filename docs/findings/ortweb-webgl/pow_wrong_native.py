"""onnxruntime-web, WebGL: `x ** 3` of negative `x` is positive: 8 for -8

A model of one node: Pow.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import html, json, pathlib, subprocess, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np, onnx, onnx.parser, onnxruntime_web
from onnx.reference import ReferenceEvaluator

MODEL = """<ir_version: 9, opset_import: ["": 20]>
g (float[1] x) => (float[1] y) <float three = {3}> { y = Pow (x, three) }"""
FEEDS = {"x": np.array([-2], "f")}
PAGE = """<body><script src="%s/node_modules/onnxruntime-web/dist/ort.webgl.min.js"></script><script>
ort.InferenceSession.create(Uint8Array.from(%s), { executionProviders: ['webgl'] }).then(
  (session) => session.run({%s})).then(
  (found) => Object.values(found).map(({ dims, data }) => [dims, Array.from(data, String)]),
  (error) => error.message).then((answer) => document.body.textContent = JSON.stringify(answer));</script>"""

model = onnx.parser.parse_model(MODEL)
onnx.checker.check_model(model, full_check=True)
right = ReferenceEvaluator(model).run(None, FEEDS)
print("onnxruntime-web", version("onnxruntime-web"), "onnx", onnx.__version__, "SwiftShader")
feeds = ", ".join(f"{n}: new ort.Tensor('float32', {a.ravel().tolist()}, {[*a.shape]})" for n, a in FEEDS.items())
start = "chromium --headless --no-sandbox --use-angle=swiftshader --virtual-time-budget=60000 --dump-dom".split()
with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    page = pathlib.Path(folder, "page.html")
    page.write_text(PAGE % (onnxruntime_web.__path__[0], [*model.SerializeToString()], feeds))
    command = [*start, f"--user-data-dir={folder}", page.as_uri()]
    printed = subprocess.check_output(command, text=True, stderr=subprocess.DEVNULL)
found = json.loads(html.unescape(printed.partition("<body>")[2].partition("</body>")[0]))
print("found", found, "right", [[[*a.shape], a.ravel().tolist()] for a in right])
found = [np.array(data, "f").reshape(shape) for shape, data in found]
fault = any(f.shape != r.shape or not np.allclose(f, r, 1e-3, 0) for f, r in zip(found, right, strict=True))
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
