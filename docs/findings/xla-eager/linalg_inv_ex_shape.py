"""xla/eager: `linalg.inv_ex` gives a matrix of zeros as `info`, of a singular matrix too

Condition: every input; for a singular one PyTorch's `info` is not 0, and `linalg.inv` raises, which it does not here.
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

class Info(torch.nn.Module):
    def forward(self, x):
        return (torch.linalg.inv_ex(x)[1],)

CASES = {
    "smallest": (Info, lambda: (torch.ones(1, 1),)),
    "ordinary size": (Info, lambda: (torch.eye(4).repeat(3, 1, 1),)),
    "singular": (Info, lambda: (torch.zeros(2, 2),)),
}

def run(model, fresh):
    device = "xla"
    found = model.to(device)(*(a.to(device) for a in fresh()))
    return [value.cpu() for value in (found if isinstance(found, (tuple, list)) else (found,))]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager = flat(Model().eval()(*fresh()))
    for number, (e, a) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), strict=True)):
        fault |= (wrong := (a.dtype, a.shape) != (e.dtype, e.shape))
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}{': wrong' * wrong}"
        print(f"{name}, output {number}: {words}")
        print(f"  eager {e.flatten()[:4].tolist()}  xla/eager@threads=1 {a.flatten()[:4].tolist()}")
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
