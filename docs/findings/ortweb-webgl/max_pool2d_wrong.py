"""ortweb/webgl: `max_pool2d` with a dilation takes the maximum of neighbours, as without dilation

Condition: `dilation` is more than 1; the size of the result is right.

Right for: a dilation of 1.

`generatePoolingCode` (lib/onnxjs/backends/webgl/ops/pool.ts) writes the position in the window as `index * stride -
pad + i`, without the dilation. The attribute counts for the size of the result only.

Seen with torch 2.13.0+cpu, onnxruntime-web 1.30.0, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import base64
import http.server
import json
import platform
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
from importlib.metadata import version

try:
    import torch
    import onnxruntime_web
    import numpy as np
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'onnxruntime-web', 'onnx', 'onnxscript')
PROPERTIES = {}


class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.max_pool2d(x0, 2, 1, 0, 2)


class Strided(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.max_pool2d(x0, 3, 2, 1, 2)


CASES = {
    "smallest": (Model, lambda: (torch.tensor([[[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 8.0]]]]),)),
    "ordinary size": (Strided, lambda: (torch.sin(torch.arange(2048.0)).reshape(2, 4, 16, 16),)),
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


def error(found, exact):
    """The largest difference, relative to the largest magnitude of `exact`.

    Infinity where shapes, NaN or infinities differ, and where results that are no floats differ at all.
    """
    if found.shape != exact.shape:
        return float("inf")
    if not (exact.is_floating_point() or exact.is_complex()):
        return 0.0 if torch.equal(found, exact) else float("inf")
    if exact.is_complex():
        found, exact = torch.view_as_real(found.resolve_conj()), torch.view_as_real(exact.resolve_conj())
    found, exact = found.double(), exact.double()
    finite = exact.isfinite()
    same = torch.equal(found.isnan(), exact.isnan()) and torch.equal(found.isfinite(), finite)
    if not same or not torch.equal(found[exact.isinf()], exact[exact.isinf()]):
        return float("inf")
    if not finite.any():
        return 0.0
    worst, size = (found - exact)[finite].abs().max(), exact[finite].abs().max()
    return float(worst / size) if size else float(worst)


def versions():
    """The versions of the packages, the processor and its instruction set."""
    found = [f"{name} {version(name)}" for name in PACKAGES]
    return ", ".join([*found, platform.machine(), torch.backends.cpu.get_cpu_capability()])


def as_tuple(results):
    return tuple(value.detach() for value in (results if isinstance(results, (tuple, list)) else (results,)))


def furthest(found, right):
    """The place of the element that is furthest off; NaN where the other is none comes first."""
    apart = (found.to(torch.complex128) - right.to(torch.complex128)).abs().nan_to_num(nan=0.0)
    apart[(found != found) != (right != right)] = float("inf")
    return tuple(int(i) for i in torch.unravel_index(apart.flatten().argmax(), apart.shape))


def shows(name, Model, fresh):
    """Whether one case shows the fault."""
    expecteds = as_tuple(Model().eval()(*fresh()))
    widened = [
        x.to(torch.promote_types(x.dtype, torch.float64)) if x.is_floating_point() or x.is_complex() else x
        for x in fresh()
    ]
    exacts = as_tuple(Model().double().eval()(*widened))  # in float64
    founds = as_tuple(run(Model().eval(), fresh))
    fault = False
    for number, (found, expected, exact) in enumerate(zip(founds, expecteds, exacts, strict=True)):
        eps = torch.finfo(expected.dtype).eps if expected.is_floating_point() or expected.is_complex() else 0.0
        off, limit = error(found, exact), 16 * max(error(expected, exact), eps)
        wrong = found.dtype != expected.dtype or off > limit
        fault |= wrong
        kind = f"{str(expected.dtype).removeprefix('torch.')}{list(expected.shape)}"
        print(f"{name}, output {number}: {kind}, error {off:.3g}, limit {limit:.3g}{': wrong' if wrong else ''}")
        if found.dtype != expected.dtype or found.shape != expected.shape:
            print("  eager:", expected.dtype, list(expected.shape), " ortweb/webgl@device=swiftshader:", found.dtype, list(found.shape))
        elif found.numel():
            place = furthest(found, exact)
            values = " ".join(f"{side} {value[place].item():.{17 if value.itemsize > 4 else 9}g} " for side, value in (
                ("eager", expected), ("ortweb/webgl@device=swiftshader", found), ("float64", exact)))
            print(f"  at {list(place)}: {values}")
    return fault


def main():
    torch.set_printoptions(precision=17)
    print(versions())
    found = False
    for name, (Model, fresh) in CASES.items():
        try:
            found |= shows(name, Model, fresh)
        except Exception:
            traceback.print_exc()
            print(f"{name}: it fails, which is another fault than the one that this script shows.")
            return 2
    print("FAULT" if found else "NO FAULT")
    return int(found)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
