"""cpu/inductor: the indices of `max_pool2d` point outside the map where a padded window is all -inf

Condition: `return_indices=True`, `padding` is not 0, and all elements of a window at the border are -inf.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, sys
from importlib.metadata import version
from math import inf, nan
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'TORCHINDUCTOR_COMPILE_THREADS': '1'})  # before PyTorch is imported
import torch
PACKAGES = ('torch',)

class Pool(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True)[1]

CASES = {
    "smallest": (Pool, lambda: (torch.full((1, 1, 2, 2), -inf),)),
    "masked map": (Pool, lambda: (torch.where(torch.arange(64).reshape(1, 1, 8, 8) < 40, -inf, 1.0),)),
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
