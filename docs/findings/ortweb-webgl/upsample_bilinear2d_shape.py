"""ortweb/webgl: a second bilinear `interpolate` of tensors of the same shape takes the scale of the first: x4 comes out as x2

Condition: one model enlarges two tensors of the same shape by two scales (`scale_factor`).
Seen with torch 2.13.0+cpu, onnxruntime-web 1.30.0, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import html, json, pathlib, platform, subprocess, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, onnxruntime_web
PACKAGES = ('torch', 'onnxruntime-web', 'onnx', 'onnxscript')

class Model(torch.nn.Module):
    def forward(self, x0):
        return (
            torch.nn.functional.interpolate(x0, scale_factor=2, mode="bilinear"),
            torch.nn.functional.interpolate(x0, scale_factor=4, mode="bilinear"),
        )

CASES = {
    "smallest": (Model, lambda: (torch.tensor([[[[0.0, 1.0], [2.0, 3.0]]]]),)),
    "ordinary size": (Model, lambda: (torch.sin(torch.arange(2048.0)).reshape(1, 8, 16, 16),)),
}

PAGE = """<body><script src="%s/node_modules/onnxruntime-web/dist/ort.webgl.min.js"></script><script>
ort.InferenceSession.create(Uint8Array.from(%s), { executionProviders: ['webgl'] }).then(
  (session) => session.run({%s})).then(
  (found) => Object.values(found).map(({ type, dims, data }) => [Array.from(data, String), type, dims]),
  (error) => error.message).then((answer) => document.body.textContent = JSON.stringify(answer));</script>"""

def run(model, fresh):
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False).model_proto
    tensors = [f"new ort.Tensor('{str(a.dtype)[6:]}', {json.dumps(a.flatten().tolist())}, {[*a.shape]})" for a in fresh()]
    feeds = ", ".join(f"{given.name}: {tensor}" for given, tensor in zip(program.graph.input, tensors, strict=True))
    start = "chromium --headless --no-sandbox --use-angle=swiftshader --virtual-time-budget=60000 --dump-dom".split()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        page = pathlib.Path(folder, "page.html")
        page.write_text(PAGE % (onnxruntime_web.__path__[0], [*program.SerializeToString()], feeds))
        printed = subprocess.check_output([*start, f"--user-data-dir={folder}", page.as_uri()], text=True, stderr=subprocess.DEVNULL)
    found = json.loads(html.unescape(printed.partition("<body>")[2].partition("</body>")[0]))
    return [torch.tensor([*map(float, each)], dtype=getattr(torch, kind)).reshape(shape) for each, kind, shape in found]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager = flat(Model().eval()(*fresh()))
    for number, (e, a) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), strict=True)):
        fault |= (wrong := (a.dtype, a.shape) != (e.dtype, e.shape))
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}{': wrong' * wrong}"
        print(f"{name}, output {number}: {words}")
        print(f"  eager {e.flatten()[:4].tolist()}  ortweb/webgl@device=swiftshader {a.flatten()[:4].tolist()}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
