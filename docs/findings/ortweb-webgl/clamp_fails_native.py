"""onnxruntime-web, WebGL: a model that leaves out an optional input, as `clamp(max=0.2)`, does not load: "unrecognized input ''"

A model of one node: Clip.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import html, json, pathlib, subprocess, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import numpy as np, onnx, onnx.parser, onnxruntime_web
from onnx.reference import ReferenceEvaluator

MODEL = """<ir_version: 9, opset_import: ["": 20]>
g (float[1] x) => (float[1] y) <float high = {0.2}> { y = Clip (x, "", high) }"""
FEEDS = {"x": np.array([1], "f")}
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
fault = isinstance(found, str)
if fault and "unrecognized input ''" not in found:
    sys.exit(print("Another failure than the one that this script shows.") or 2)
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
