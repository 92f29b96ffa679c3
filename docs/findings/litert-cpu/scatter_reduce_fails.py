"""litert/cpu: `scatter_add`, `scatter_reduce`, `index_add`, `fold` make a model that does not load

Condition: a scatter that adds, multiplies or takes the larger or smaller value; float32, 1-d and 2-d.
Seen with torch 2.13.0+cpu, litert-torch 0.10.0, ai-edge-litert 2.3.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import os, platform, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'JAX_PLATFORMS': 'cpu'})  # before PyTorch is imported
import torch, litert_torch, numpy as np
PACKAGES = ('torch', 'litert-torch', 'ai-edge-litert')
FAILURE = ("RuntimeError", "Only update, Add, Multiply, Maximum and Minimum operations are currently supported for stablehlo.scatter")

class Model(torch.nn.Module):
    def forward(self, x0, x1, x2):
        return torch.scatter_add(x0, 0, x1, x2)

class Reduce(torch.nn.Module):
    def forward(self, x0, x1, x2):
        return torch.scatter_reduce(x0, 0, x1, x2, "amax")

class Rows(torch.nn.Module):
    def forward(self, x0, x1, x2):
        return torch.index_add(x0, 0, x1, x2)

def operands():
    return torch.linspace(-1, 1, 8), torch.tensor([0, 3, 3, 5]), torch.linspace(0, 3, 4)

CASES = {
    "smallest": (Model, lambda: (torch.tensor([1.0]), torch.tensor([0]), torch.tensor([2.0]))),
    "ordinary size": (Model, operands),
    "scatter_reduce": (Reduce, operands),
    "index_add": (Rows, lambda: (torch.zeros(8, 3), torch.tensor([0, 3, 3, 5]), torch.ones(4, 3))),
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
