"""onnxruntime/cpu: `max_pool1d`, `max_pool2d` and `max_pool3d` lose NaN

Condition: a window holds a NaN, with some places of it within the window.
Seen with torch 2.13.0+cpu, onnxruntime 1.31.1, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
from math import inf, nan
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, onnxruntime
PACKAGES = ('torch', 'onnxruntime', 'onnx', 'onnxscript')
COMPARE = "equal"

class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.max_pool2d(x0, 2)

class Line(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.max_pool1d(x0, 2)

class Volume(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.max_pool3d(x0, 2)

CASES = {
    "smallest": (Model, lambda: (torch.tensor([[[[nan, 1.0], [2.0, 3.0]]]]),)),
    "ordinary size": (Model, lambda: (torch.linspace(-2, 2, 384).where(torch.arange(384) % 50 != 0, nan).reshape(2, 3, 8, 8),)),
    "max_pool1d": (Line, lambda: (torch.linspace(-2, 2, 24).where(torch.arange(24) % 5 != 0, nan).reshape(1, 2, 12),)),
    "max_pool3d": (Volume, lambda: (torch.linspace(-2, 2, 128).where(torch.arange(128) % 9 != 0, nan).reshape(1, 2, 4, 4, 4),)),
}

def run(model, fresh):
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), fresh(), strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]

def off(found, right):
    """0 where elements are equal, else infinity: nothing here is rounded but by a cast. NaN equals NaN."""
    return torch.where((found == right) | (found.isnan() & right.isnan()), 0.0, torch.inf)

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out]) if each.numel()]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager = flat(Model().eval()(*fresh()))
    for number, (e, a) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), strict=True)):
        far = off(a, e) if (a.dtype, a.shape) == (e.dtype, e.shape) else torch.full(e.shape, torch.inf)
        error, limit = far.max().item(), 16 * torch.finfo(torch.result_type(e, 1.0)).eps
        at = torch.unravel_index(far.argmax(), e.shape)
        fault |= (wrong := error > limit)
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}, error {error:.3g}, limit {limit:.3g}"
        print(f"{name}, output {number}: {words}{': wrong' * wrong}")
        print(f"  at {[*map(int, at)]}: eager {e[at]}  onnxruntime/cpu {a[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
