"""cpu/inductor: `torch.arange(n)` that is converted to bool, uint8 or float16 and back keeps its value

Condition: `torch.arange` is converted to a dtype that does not hold its elements (bool, a narrower integer, a float
of fewer digits) and then to an integer again, in one kernel.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'TORCHINDUCTOR_COMPILE_THREADS': '1'})  # before PyTorch is imported
import torch
PACKAGES = ('torch',)

class Bytes(torch.nn.Module):
    def forward(self, x):
        return torch.arange(300).to(torch.uint8).to(torch.int64) + x

class Later(torch.nn.Module):
    """How many rows come after each one, if the first is left out."""
    def forward(self, x):
        return torch.arange(5).bool().to(torch.int64) + x

CASES = {
    "smallest": (Later, lambda: (torch.zeros(1, dtype=torch.int64),)),
    "bytes": (Bytes, lambda: (torch.zeros(1, dtype=torch.int64),)),
    "table of bytes": (type("Table", (torch.nn.Module,), {"forward": lambda self, x: x[torch.arange(300).to(torch.uint8).long()]}), lambda: (torch.arange(300),)),
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
