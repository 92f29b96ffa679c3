"""ortweb/webgl: a model that leaves out an optional input, as `clamp(max=0.2)`, does not load: "unrecognized input ''"

Condition: a node has an empty name for an optional input in the middle (`Clip` with a maximum alone).
Seen with torch 2.13.0+cpu, onnxruntime-web 1.30.0, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import html, json, pathlib, platform, subprocess, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, onnxruntime_web
PACKAGES = ('torch', 'onnxruntime-web', 'onnx', 'onnxscript')
FAILURE = ("RuntimeError", "unrecognized input ''")

class Model(torch.nn.Module):
    def forward(self, x0):
        return x0.clamp(max=0.2)

CASES = {
    "smallest": (Model, lambda: (torch.tensor([1.0]),)),
    "ordinary size": (Model, lambda: (torch.linspace(-2.0, 2.0, 64).reshape(8, 8),)),
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
    if isinstance(found, str):
        raise RuntimeError(found)
    return [torch.tensor([*map(float, each)], dtype=getattr(torch, kind)).reshape(shape) for each, kind, shape in found]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    try:
        run(Model().eval(), fresh)
        print(f"{name}: ortweb/webgl@device=swiftshader runs it")
    except Exception as problem:
        print(f"{name}: ortweb/webgl@device=swiftshader raised:", type(problem).__name__, str(problem)[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem)):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
