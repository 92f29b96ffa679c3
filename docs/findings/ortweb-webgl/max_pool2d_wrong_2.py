"""ortweb/webgl: `max_pool2d` of numbers below -1e5 is -1e5 (so `-max_pool2d(-x)` above 1e5 is 1e5), of -inf too

Condition: all numbers of a window are below -100000.
Seen with torch 2.13.0+cpu, onnxruntime-web 1.30.0, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import html, json, pathlib, platform, subprocess, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, onnxruntime_web
PACKAGES = ('torch', 'onnxruntime-web', 'onnx', 'onnxscript')

class Model(torch.nn.Module):
    def forward(self, x0):
        return -torch.nn.functional.max_pool2d(-x0, 2)

CASES = {
    "smallest": (Model, lambda: (torch.full((1, 1, 2, 2), 200000.0),)),
    "ordinary size": (Model, lambda: (torch.arange(100000.0, 100256.0).reshape(1, 1, 16, 16) * 2,)),
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

def off(found, right):
    """How far each element is off, relative to the largest of `right`; inf where NaN, inf or integers differ."""
    f, r, real = found.to(torch.complex128), right.to(torch.complex128), right.is_floating_point() or right.is_complex()
    far = ((f - r).abs() / (max(r[r.isfinite()].abs().tolist(), default=0) or 1) / real).nan_to_num(torch.inf, torch.inf)
    return torch.where((found == right) | (found.isnan() & right.isnan()), 0.0, far)

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out]) if each.numel()]
wide = lambda x: x.to(torch.promote_types(x.dtype, torch.float64)) if x.is_floating_point() or x.is_complex() else x
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager, exact = flat(Model().eval()(*fresh())), flat(Model().double().eval()(*map(wide, fresh())))
    for number, (e, a, x) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), exact, strict=True)):
        far = off(a, x) if (a.dtype, a.shape) == (e.dtype, e.shape) else torch.full(e.shape, torch.inf)
        error, limit = far.max().item(), 16 * max(off(e, x).max().item(), torch.finfo(torch.result_type(e, 1.0)).eps)
        at = torch.unravel_index(far.argmax(), e.shape)
        fault |= (wrong := error > limit)
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}, error {error:.3g}, limit {limit:.3g}"
        print(f"{name}, output {number}: {words}{': wrong' * wrong}")
        print(f"  at {[*map(int, at)]}: eager {e[at]}  ortweb/webgl@device=swiftshader {a[at]}  float64 {x[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
