"""xla/eager: `pad(mode="replicate")` with a negative amount fails

Condition: `mode` is replicate and an amount is negative, which crops in PyTorch.
Seen with torch 2.9.0, torch_xla 2.9.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'OMP_NUM_THREADS': '1', 'MKL_NUM_THREADS': '1', 'OMP_DYNAMIC': 'FALSE', 'MKL_DYNAMIC': 'FALSE', 'NPROC': '1'})  # before PyTorch is imported
import torch
import torch_xla
PACKAGES = ('torch', 'torch_xla')

FAILURE = ("RuntimeError", "Invalid dimension size -")

class Line(torch.nn.Module):
    def forward(self, x):
        return (torch.nn.functional.pad(x, (-1, 0), mode="replicate"),)

class Image(torch.nn.Module):
    def forward(self, x):
        return (torch.nn.functional.pad(x, (2, -2, 1, 1), mode="replicate"),)

CASES = {
    "smallest": (Line, lambda: (torch.ones(1, 1, 2),)),
    "ordinary size": (Image, lambda: (torch.ones(2, 3, 8, 8),)),
}

def run(model, fresh):
    device = "xla"
    found = model.to(device)(*(a.to(device) for a in fresh()))
    return [value.cpu() for value in (found if isinstance(found, (tuple, list)) else (found,))]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    try:
        run(Model().eval(), fresh)
        print(f"{name}: xla/eager@threads=1 runs it")
    except Exception as problem:
        print(f"{name}: xla/eager@threads=1 raised:", type(problem).__name__, str(problem)[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem)):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
