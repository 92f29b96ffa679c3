"""cpu/inductor: `abs` of uint8, int8 and int16 is a C++ int: what follows does not wrap as the dtype does

Condition: the dtype is uint8, int8 or int16, the scalar loop computes it (few elements, or a loop that is not
vectorised), and it is computed further in the same kernel: negated, or the least value of a signed dtype widened.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'TORCHINDUCTOR_COMPILE_THREADS': '1'})  # before PyTorch is imported
import torch
PACKAGES = ('torch',)

class Negated(torch.nn.Module):
    def forward(self, x):
        y = -x.abs()
        return torch.cat([y, y]).sum()

class Least(torch.nn.Module):
    def forward(self, x):
        return x.abs().to(torch.int32)

CASES = {
    "smallest": (Negated, lambda: (torch.tensor([200, 200], dtype=torch.uint8),)),
    "pixels": (Negated, lambda: (torch.arange(100, 131).to(torch.uint8),)),
    "least int8": (Least, lambda: (torch.tensor([-128, 100, 127], dtype=torch.int8),)),
    "least int16": (Least, lambda: (torch.tensor([-32768, 5, 7], dtype=torch.int16),)),
}
COMPARE = "equal"
EXACT = False

def run(model, fresh):
    compiled = torch.compile(model, fullgraph=True, dynamic=False)
    return compiled(*fresh())

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
        print(f"  at {at}: eager {e}  cpu/inductor {a}")
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
