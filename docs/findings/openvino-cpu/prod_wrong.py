"""openvino/cpu: `prod` of uint8, int8, int16 and int32 keeps the dtype: the product of 100 and 3 is 127 or 255

Condition: the input is an integer narrower than int64, and `dtype` is not given.
Seen with torch 2.13.0+cpu, openvino 2026.4.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
import openvino
import numpy as np
PACKAGES = ('torch', 'openvino')
PROPERTIES = {'INFERENCE_PRECISION_HINT': 'f32'}

COMPARE = "equal"

class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.prod(x0)

class Rows(torch.nn.Module):
    def forward(self, x0):
        return torch.prod(x0, 1)

CASES = {
    "smallest": (Model, lambda: (torch.tensor([1], dtype=torch.int32),)),
    "ordinary size": (Rows, lambda: (torch.arange(1, 25, dtype=torch.uint8).reshape(4, 6),)),
    "int8": (Model, lambda: (torch.tensor([100, 3], dtype=torch.int8),)),
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
        place, limit = far.argmax(), 16 * torch.finfo(torch.result_type(e, 1.0)).eps
        error, at = far.flatten()[place].item(), [*map(int, torch.unravel_index(place, e.shape))]
        fault |= (wrong := error > limit)
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}, error {error:.3g}, limit {limit:.3g}"
        print(f"{name}, output {number}: {words}{': wrong' * wrong}")
        e, a = (value.flatten()[place].item() for value in (e, a))
        print(f"  at {at}: eager {e}  openvino/cpu@precision=f32 {a}")
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
