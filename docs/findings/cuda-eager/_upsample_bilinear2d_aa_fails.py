"""cuda/eager: `interpolate(antialias=True)` of a batch of 0 fails with "CUDA error: invalid argument"

Condition: a batch without elements, `mode` of "bilinear" or "bicubic" and `antialias=True`.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
PACKAGES = ('torch',)

FAILURE = ("AcceleratorError", "CUDA error: invalid argument")

class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.interpolate(x0, (3, 3), mode="bilinear", antialias=True)

class Bicubic(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.interpolate(x0, scale_factor=0.5, mode="bicubic", antialias=True)

CASES = {
    "smallest": (Model, lambda: (torch.zeros(0, 1, 4, 4),)),
    "ordinary size": (Model, lambda: (torch.zeros(0, 3, 10, 20),)),
    "bicubic": (Bicubic, lambda: (torch.zeros(0, 3, 64, 64),)),
}

def run(model, fresh):
    device = "cuda"
    found = model.to(device)(*(a.to(device) for a in fresh()))
    return [value.cpu() for value in (found if isinstance(found, (tuple, list)) else (found,))]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), torch.cuda.get_device_name(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    try:
        run(Model().eval(), fresh)
        print(f"{name}: cuda/eager runs it")
    except Exception as problem:
        print(f"{name}: cuda/eager raised:", type(problem).__name__, str(problem)[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem)):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
