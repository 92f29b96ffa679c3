"""cpu/inductor: `ldexp` of two dtypes returns the first's, or float32 for integers

Condition: the exponent is a tensor of floats of another dtype than the first operand: float16 with float32, int64
with bfloat16.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'TORCHINDUCTOR_COMPILE_THREADS': '1'})  # before PyTorch is imported
import torch
PACKAGES = ('torch',)

class Scale(torch.nn.Module):
    def forward(self, x, exponent):
        return torch.ldexp(x, exponent)

CASES = {
    "smallest": (Scale, lambda: (torch.tensor([1.5], dtype=torch.float16), torch.tensor([1.0]))),
    "scales": (Scale, lambda: (torch.linspace(-1, 1, 12).half().reshape(3, 4), torch.linspace(-2, 2, 4))),
    "integers": (Scale, lambda: (torch.arange(4), torch.linspace(-2, 2, 4).bfloat16())),
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
