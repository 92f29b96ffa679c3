"""cpu/inductor: `amin`, `argmin`, `amax` and `argmax` of int8 and uint8 are 0 where no element is nearer to 0

Condition: the dtype is int8 or uint8, 16 elements or more are reduced along the contiguous dimension, and all of them
are positive (amin, argmin) or negative (amax, argmax).
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'TORCHINDUCTOR_COMPILE_THREADS': '1'})  # before PyTorch is imported
import torch
PACKAGES = ('torch',)

class Smallest(torch.nn.Module):
    def forward(self, x0):
        return torch.amin(x0)

class Range(torch.nn.Module):
    """The range of each channel of quantised weights."""
    def forward(self, x0):
        return torch.amin(x0, -1), torch.amax(x0, -1)

class Darkest(torch.nn.Module):
    """Images with the darkest pixel of each at 0."""
    def forward(self, images):
        return images - images.amin((1, 2, 3), keepdim=True), images.flatten(1).argmin(1)

CASES = {
    "smallest": (Smallest, lambda: (torch.full((16,), 3, dtype=torch.int8),)),
    "range of channels": (Range, lambda: (torch.arange(3, 99, dtype=torch.int8).reshape(4, 24),)),
    "range of negative channels": (Range, lambda: (-torch.arange(3, 99, dtype=torch.int8).reshape(4, 24),)),
    "images": (Darkest, lambda: ((torch.arange(2 * 3 * 8 * 8) % 200 + 20).to(torch.uint8).reshape(2, 3, 8, 8),)),
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
        error, limit = far.max().item(), 16 * torch.finfo(torch.result_type(e, 1.0)).eps
        at = torch.unravel_index(far.argmax(), e.shape)
        fault |= (wrong := error > limit)
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}, error {error:.3g}, limit {limit:.3g}"
        print(f"{name}, output {number}: {words}{': wrong' * wrong}")
        print(f"  at {[*map(int, at)]}: eager {e[at]}  cpu/inductor {a[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
