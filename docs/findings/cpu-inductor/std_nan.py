"""cpu/inductor: `std` of float32 is inf for elements of 1e20 and 0 for elements of 1e-25

Condition: the dtype is float32, and the squares of the differences leave the range of float32: elements from 1e19 on,
or below 1e-23.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'TORCHINDUCTOR_COMPILE_THREADS': '1'})  # before PyTorch is imported
import torch
PACKAGES = ('torch',)

class Deviation(torch.nn.Module):
    def forward(self, x):
        return x.std(-1)

class Normalise(torch.nn.Module):
    def forward(self, x):
        return x / x.std(-1, keepdim=True)

CASES = {
    "smallest": (Deviation, lambda: (torch.tensor([1e30, 2e30]),)),
    "ordinary size": (Deviation, lambda: (torch.linspace(1e20, 2e20, 64).reshape(4, 16),)),
    "small": (Normalise, lambda: (torch.linspace(1e-25, 2e-25, 64).reshape(4, 16),)),
}

def run(model, fresh):
    compiled = torch.compile(model, fullgraph=True, dynamic=False)
    return compiled(*fresh())

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
        print(f"  at {at}: eager {e}  cpu/inductor {a}  float64 {x}")
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
