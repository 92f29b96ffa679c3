"""cpu/inductor: `cumsum` of `torch.ones` and `torch.full` ignores its `dtype`: int64 for bfloat16 of bools and for float32 of integers, float32 for float64

Condition: the operand is `torch.ones` or `torch.full` of any rank, `dtype` is given to `cumsum`, and it is another
than the constant's, or than int64 where the constant is of bools or integers.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'TORCHINDUCTOR_COMPILE_THREADS': '1'})  # before PyTorch is imported
import torch
PACKAGES = ('torch',)

class Positions(torch.nn.Module):
    """Positions of tokens in half precision, by a running count of a mask that is whole."""
    def forward(self, x):
        return x + 1, torch.ones(2, 4, dtype=torch.bool).cumsum(1, dtype=torch.bfloat16)

class Counts(torch.nn.Module):
    def forward(self, x):
        return x + 1, torch.ones(4).cumsum(0, dtype=torch.float64)

CASES = {
    "bools": (Positions, lambda: (torch.zeros(4),)),
    "floats": (Counts, lambda: (torch.zeros(4),)),
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
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
