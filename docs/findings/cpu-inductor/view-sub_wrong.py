"""cpu/inductor: what is computed of an argument's view in a dtype of another size is computed after a later write to the argument

Condition: the argument is viewed in a dtype of another size, what is computed of the view is written in place and
returned as a view in another dtype, of the same size too, and the argument is written in place in between.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'TORCHINDUCTOR_COMPILE_THREADS': '1'})  # before PyTorch is imported
import torch
PACKAGES = ('torch',)
import torch

class Halves(torch.nn.Module):
    """Twice the 32-bit halves of numbers, whose buffer is emptied afterwards."""
    def forward(self, x):
        y = x.view(torch.int32) * 2
        y.sub_(4)
        x.zero_()
        return y.view(torch.int64)

class Some(torch.nn.Module):
    def forward(self, x):
        y = x.view(torch.int32) * 2
        y.add_(1)
        x[:, 2:5] = 2
        return y.view(torch.int64)

CASES = {
    "smallest": (Halves, lambda: (torch.tensor([[3, 4], [5, 6]]),)),
    "ordinary size": (Some, lambda: (torch.arange(64).reshape(8, 8),)),
}

def run(model, fresh):
    compiled = torch.compile(model, fullgraph=True, dynamic=False)
    return compiled(*fresh())

def off(found, right):
    """How far each element is off, relative to the largest of `right`; inf where NaN, inf or integers differ."""
    f, r, real = found.to(torch.complex128), right.to(torch.complex128), right.is_floating_point() or right.is_complex()
    far = ((f - r).abs() / (max(r[r.isfinite()].abs().tolist(), default=0) or 1) / real).nan_to_num(torch.inf, torch.inf)
    return torch.where((found == right) | (found.isnan() & right.isnan()), 0.0, far)

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out]) if each.numel()]
wide = lambda x: x.to(torch.promote_types(x.dtype, torch.float64)) if x.is_floating_point() or x.is_complex() else x
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager, exact = flat(Model().eval()(*fresh())), flat(Model().double().eval()(*map(wide, fresh())))
    for number, (e, a, x) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), exact, strict=True)):
        far = off(a, x) if (a.dtype, a.shape) == (e.dtype, e.shape) else torch.full(e.shape, torch.inf)
        error, limit = far.max().item(), 16 * max(off(e, x).max().item(), torch.finfo(torch.result_type(e, 1.0)).eps)
        at = torch.unravel_index(far.argmax(), e.shape)
        fault |= (wrong := error > limit)
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}, error {error:.3g}, limit {limit:.3g}"
        print(f"{name}, output {number}: {words}{': wrong' * wrong}")
        print(f"  at {[*map(int, at)]}: eager {e[at]}  cpu/inductor {a[at]}  float64 {x[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
