"""onnxruntime-web, WebGL: a second bilinear `interpolate` of tensors of the same shape takes the scale of the first: x4 comes out as x2

A model of 2 nodes: Resize.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import html, json, pathlib, subprocess, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np, onnx, onnx.parser, onnxruntime_web
from onnx.reference import ReferenceEvaluator

MODEL = """<ir_version: 9, opset_import: ["": 20]>
g (float[1, 1, 2, 2] x) => (float[1, 1, 4, 4] y, float[1, 1, 8, 8] z)
<float[4] two = {1, 1, 2, 2}, float[4] four = {1, 1, 4, 4}> {
  y = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel"> (x, "", two)
  z = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel"> (x, "", four)
}"""
FEEDS = {"x": np.arange(4, dtype="f").reshape(1, 1, 2, 2)}
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
