"""openvino/cpu: `clamp`, `relu`, `minimum` and `maximum` of NaN give a limit or 0, not NaN

Condition: the operand holds NaN (of `minimum` and `maximum` the first one); float32 and float16, any length (1 to 17
were run), static and dynamic shapes.
Seen with torch 2.13.0+cpu, openvino 2026.4.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
from math import inf, nan
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, openvino, numpy as np
PACKAGES = ('torch', 'openvino')
PROPERTIES = {'INFERENCE_PRECISION_HINT': 'f32'}
COMPARE = "equal"

class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.clamp(x0, 0, 6)

class Relu(torch.nn.Module):
    def forward(self, x0):
        return torch.relu(x0)

class Minimum(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.minimum(x0, x1)

CASES = {
    "smallest": (Model, lambda: (torch.tensor([nan]),)),
    "ordinary size": (Model, lambda: (torch.linspace(-2, 9, 24).where(torch.arange(24) % 8 != 5, nan).reshape(4, 6),)),
    "relu": (Relu, lambda: (torch.tensor([nan, 1.0, -1.0, 3.0]),)),
    "minimum": (Minimum, lambda: (torch.tensor([nan, 1.0, 5.0]), torch.tensor([2.0, 2.0, 2.0]))),
}

def run(model, fresh):
    converted = openvino.convert_model(torch.export.export(model, fresh()))
    compiled = openvino.compile_model(converted, "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in fresh()]).values()]

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
        print(f"  at {[*map(int, at)]}: eager {e[at]}  openvino/cpu@precision=f32 {a[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
