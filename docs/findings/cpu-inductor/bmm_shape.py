"""cpu/inductor: `bmm` of integers with one row or one column returns int64

Condition: the operands are integers of fewer bits than int64, and the first has one row, or the second one column.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'TORCHINDUCTOR_COMPILE_THREADS': '1'})  # before PyTorch is imported
import torch
PACKAGES = ('torch',)

class Product(torch.nn.Module):
    def forward(self, a, b):
        return torch.bmm(a, b)

class Scores(torch.nn.Module):
    """Scores of one query against the keys of quantised vectors, as int8."""
    def forward(self, query, keys):
        return query @ keys.transpose(1, 2)

CASES = {
    "smallest": (Product, lambda: (torch.ones(1, 1, 2, dtype=torch.int8), torch.ones(1, 2, 2, dtype=torch.int8))),
    "scores": (Scores, lambda: (torch.ones(2, 1, 16, dtype=torch.int8), torch.ones(2, 5, 16, dtype=torch.int8))),
    "int32": (Product, lambda: (torch.ones(2, 3, 4, dtype=torch.int32), torch.ones(2, 4, 1, dtype=torch.int32))),
}

def run(model, fresh):
    compiled = torch.compile(model, fullgraph=True, dynamic=False)
    return compiled(*fresh())

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager = flat(Model().eval()(*fresh()))
    for number, (e, a) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), strict=True)):
        fault |= (wrong := (a.dtype, a.shape) != (e.dtype, e.shape))
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}{': wrong' * wrong}"
        print(f"{name}, output {number}: {words}")
        print(f"  eager {e.flatten()[:4].tolist()}  cpu/inductor {a.flatten()[:4].tolist()}")
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
