"""cpu/inductor: `x * 0` of floats is 0 where x is NaN or inf; so `softshrink` of NaN is 0

Condition: the factor is the integer 0 of Python, and an element of a float tensor is NaN or inf.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import os, platform, sys
from importlib.metadata import version
from math import inf, nan
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'TORCHINDUCTOR_COMPILE_THREADS': '1'})  # before PyTorch is imported
import torch
PACKAGES = ('torch',)

class Nothing(torch.nn.Module):
    def forward(self, x):
        return x * 0

class Watch(torch.nn.Module):
    """A sum that is NaN as soon as one element is not finite."""
    def forward(self, x):
        return (x * 0).sum()

class Shrink(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.softshrink(x)

CASES = {
    "softshrink": (Shrink, lambda: (torch.tensor([nan, 1.0]),)),
    "smallest": (Nothing, lambda: (torch.tensor([nan, 1.0]),)),
    "watch": (Watch, lambda: (torch.cat([torch.linspace(-4, 4, 63), torch.tensor([inf])]),)),
}
EXACT = False

def run(model, fresh):
    compiled = torch.compile(model, fullgraph=True, dynamic=False)
    return compiled(*fresh())

def off(found, right):
    """How far each element is off, relative to the largest of `right`; inf where NaN, inf or integers differ."""
    f, r, real = found.to(torch.complex128), right.to(torch.complex128), right.is_floating_point() or right.is_complex()
    far = ((f - r).abs() / (max(r[r.isfinite()].abs().tolist(), default=0) or 1) / real).nan_to_num(torch.inf, torch.inf)
    return torch.where((found == right) | (found.isnan() & right.isnan()), 0.0, far)

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
        print(f"  at {[*map(int, at)]}: eager {e[at]}  cpu/inductor {a[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
