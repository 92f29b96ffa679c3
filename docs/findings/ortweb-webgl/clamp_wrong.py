"""ortweb/webgl: `clamp(min=0.2)` returns its input: a `Clip` with a minimum alone is ignored

Condition: `clamp` has a minimum and no maximum.
Seen with torch 2.13.0+cpu, onnxruntime-web 1.30.0, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import base64, http.server, json, platform, queue, shutil, subprocess, sys, tempfile, threading
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
import onnxruntime_web
import numpy as np
PACKAGES = ('torch', 'onnxruntime-web', 'onnx', 'onnxscript')
PROPERTIES = {}
class Model(torch.nn.Module):
    def forward(self, x0):
        return x0.clamp(min=0.2)
CASES = {
    "smallest": (Model, lambda: (torch.tensor([-1.0]),)),
    "ordinary size": (Model, lambda: (torch.linspace(-2.0, 2.0, 64).reshape(8, 8),)),
}
SOFTWARE = ('--use-webgpu-adapter=swiftshader', '--use-angle=swiftshader')
PAGE = """<!doctype html><script type="module">
import * as ort from './ort.webgl.min.mjs';
const bytes = (text) => Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
const text = (array) => {
  const raw = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
  return btoa(Array.from(raw, (each) => String.fromCharCode(each)).join(''));
};
async function run() {
  const asked = await (await fetch('./asked')).json();
  const settings = {
    executionProviders: ['webgl'], extra: { session: { disable_cpu_ep_fallback: '1' } }, ...asked.settings };
  const session = await ort.InferenceSession.create(bytes(asked.model), settings);
  const feeds = {};
  for (const { name, dtype, shape, data } of asked.feeds) {
    const Kind = { float32: Float32Array, float64: Float64Array, float16: globalThis.Float16Array ?? Uint16Array,
      int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array, uint8: Uint8Array,
      uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array, bool: Uint8Array }[dtype];
    feeds[name] = new ort.Tensor(dtype, new Kind(bytes(data).buffer), shape);
  }
  const found = await session.run(feeds);
  return Promise.all(session.outputNames.map(async (name) => (
    { dtype: found[name].type, shape: found[name].dims, data: text(await found[name].getData()) })));
}
const outputs = await run().then((outputs) => ({ outputs }), (error) => ({ error: String(error.message ?? error) }));
await fetch('./answer', { method: 'POST', body: JSON.stringify(outputs) });
</script>"""
class Server(http.server.SimpleHTTPRequestHandler):
    """Gives the page, onnxruntime-web and what is asked; takes the answer."""
    asked = b""
    answers: queue.Queue[bytes] = queue.Queue()
    def do_GET(self):
        body = {"/": PAGE.encode(), "/asked": self.asked}.get(self.path)
        if body is None:
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if self.path == "/" else "application/json")
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        self.answers.put(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()
    def end_headers(self):
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()
    def log_message(self, *_):
        pass
def run(model, fresh):
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    arrays = zip([given.name for given in program.model_proto.graph.input], fresh(), strict=True)
    feeds = [
        {"name": name, "dtype": str(given.dtype).removeprefix("torch."), "shape": list(given.shape),
         "data": base64.b64encode(given.numpy().tobytes()).decode()}
        for name, given in arrays
    ]  # fmt: skip
    written = base64.b64encode(program.model_proto.SerializeToString()).decode()
    Server.asked = json.dumps({"model": written, "settings": PROPERTIES, "feeds": feeds}).encode()
    folder = f"{next(iter(onnxruntime_web.__path__))}/node_modules/onnxruntime-web/dist"
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *each: Server(*each, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert browser, "needs chromium or google-chrome"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        flags = [
            "--headless=new", "--no-sandbox", "--enable-unsafe-webgpu", "--enable-features=Vulkan,WebGPU",
            "--ignore-gpu-blocklist", *SOFTWARE,
        ]  # fmt: skip
        command = [browser, *flags, f"--user-data-dir={profile}", f"http://127.0.0.1:{server.server_port}/"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            answer = json.loads(Server.answers.get(timeout=120))
        finally:
            process.kill()
            process.wait()
            server.shutdown()
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return [
        torch.as_tensor(np.frombuffer(bytearray(base64.b64decode(each["data"])), each["dtype"]).reshape(each["shape"]))
        for each in answer["outputs"]
    ]
def off(found, right):
    """How far each element is off, relative to the largest of `right`; inf where NaN, inf or integers differ."""
    f, r = found.to(torch.complex128), right.to(torch.complex128)
    apart = (f - r).abs() / (max(r[r.isfinite()].abs().tolist(), default=0) or 1)
    apart = apart if right.is_floating_point() or right.is_complex() else apart + torch.inf
    return torch.where((found == right) | (found.isnan() & right.isnan()), 0.0, apart.nan_to_num(torch.inf, torch.inf))
flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out]) if each.numel()]
wide = lambda x: x.to(torch.promote_types(x.dtype, torch.float64)) if x.is_floating_point() or x.is_complex() else x
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager = flat(Model().eval()(*fresh()))
    exact = flat(Model().double().eval()(*map(wide, fresh())))
    for number, (e, a, x) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), exact, strict=True)):
        far = off(a, x) if (a.dtype, a.shape) == (e.dtype, e.shape) else torch.full(e.shape, torch.inf)
        place, limit = far.argmax(), 16 * max([*off(e, x).flatten().tolist(), torch.finfo(torch.result_type(e, 1.0)).eps])
        error, at = far.flatten()[place].item(), [*map(int, torch.unravel_index(place, e.shape))]
        fault |= (wrong := error > limit)
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}, error {error:.3g}, limit {limit:.3g}"
        print(f"{name}, output {number}: {words}{': wrong' * wrong}")
        e, a, x = (value.flatten()[place].item() for value in (e, a, x))
        print(f"  at {at}: eager {e}  ortweb/webgl@device=swiftshader {a}  float64 {x}")
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
