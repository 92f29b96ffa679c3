"""cpu/inductor: `x.add_(x.flip(0))` after `x[i] = v` reads rows that it has written already

Condition: an input is written by an index (`x[i] = v`, `index_put_`, `index_copy_`), and then changed in place by a
function of its own elements at other places.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'TORCHINDUCTOR_COMPILE_THREADS': '1'})  # before PyTorch is imported
import torch
PACKAGES = ('torch',)

class Scatter(torch.nn.Module):
    def forward(self, x):
        x[torch.arange(4)] = x * 2
        x.add_(x.flip(0))
        return x

class Cache(torch.nn.Module):
    """Writes rows of a cache that is an input, then mixes each row with its mirror in place."""
    def forward(self, cache, rows, values):
        cache[rows] = values
        cache += cache.flip(0)
        return cache

CASES = {
    "smallest": (Scatter, lambda: (torch.arange(32.0).reshape(4, 8),)),
    "cache": (Cache, lambda: (torch.arange(48.0).reshape(6, 8), torch.tensor([0, 1, 2]), torch.full((3, 8), 9.0))),
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
