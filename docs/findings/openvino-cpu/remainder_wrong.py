"""openvino/cpu: `x % y`, `x // y` and `div(rounding_mode="trunc")` of integers above 2**24 divide in float32: 777777777 % 11 is 0, not 7

Condition: int32 or int64 within the range of int32, and an operand or quotient above 2**24 (`fmod` too).
Seen with torch 2.13.0+cpu, openvino 2026.4.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, openvino, numpy as np
PACKAGES = ('torch', 'openvino')
PROPERTIES = {'INFERENCE_PRECISION_HINT': 'f32'}
COMPARE = "equal"

class Model(torch.nn.Module):
    def forward(self, x):
        return x % 11

class Divide(torch.nn.Module):
    def forward(self, x):
        return x // 11

class Trunc(torch.nn.Module):
    def forward(self, x):
        return torch.div(x, 11, rounding_mode="trunc")

CASES = {
    "smallest": (Model, lambda: (torch.tensor([777777777]),)),
    "ordinary size": (Model, lambda: (torch.arange(64).reshape(4, 16) * 30000001,)),
    "x // 11": (Divide, lambda: (torch.arange(64).reshape(4, 16) * 30000001,)),
    "div(rounding_mode)": (Trunc, lambda: (torch.arange(64, dtype=torch.int32).reshape(4, 16) * 30000001,)),
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
