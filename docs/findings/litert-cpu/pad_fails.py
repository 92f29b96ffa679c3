"""litert/cpu: an empty result of `pad`, `cat`, `sum(dim)` or `x[:, index]` cannot be read

Condition: the result has no elements and the converter folds its operator into a constant (pad, cat, sum over a
dimension, indexing by a tensor).
Seen with torch 2.13.0+cpu, litert-torch 0.10.0, ai-edge-litert 2.3.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import os, platform, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'JAX_PLATFORMS': 'cpu'})  # before PyTorch is imported
import torch, litert_torch, numpy as np
PACKAGES = ('torch', 'litert-torch', 'ai-edge-litert')
FAILURE = ("ValueError", "Invalid tensor size")

class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.pad(x0, (0, 1))

class Sum(torch.nn.Module):
    def forward(self, x0):
        return torch.sum(x0, 1)

class Cat(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.cat((x0, x1), 1)

CASES = {
    "smallest": (Model, lambda: (torch.empty(0, 1),)),
    "ordinary size": (Model, lambda: (torch.empty(0, 3, 32),)),
    "sum": (Sum, lambda: (torch.empty(0, 3, 32),)),
    "cat": (Cat, lambda: (torch.empty(0, 3), torch.empty(0, 4))),
}

def run(model, fresh):
    converted = litert_torch.convert(model, fresh(), enable_x64=True)
    found = converted(*(a.numpy() for a in fresh()))
    return [torch.as_tensor(np.array(array)) for array in (found if isinstance(found, tuple) else (found,))]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
log = tempfile.TemporaryFile()
os.dup2(log.fileno(), 2)  # there it reports
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    log.seek(0), log.truncate()
    try:
        run(Model().eval(), fresh)
        print(f"{name}: litert/cpu@threads=1,x64=on runs it")
    except Exception as problem:
        printed = log.seek(0) or log.read().decode(errors="replace")
        print(f"{name}: litert/cpu@threads=1,x64=on raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem) + printed):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
