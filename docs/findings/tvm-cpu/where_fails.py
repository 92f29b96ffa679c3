"""tvm/cpu: `torch.where(c, x, y)` of two dtypes fails (so `clamp` with a bound of another dtype)

Condition: the branches have different dtypes, a 0-d one too (special.entr of float64 has a float32 branch).
Seen with torch 2.13.0+cpu, apache-tvm 0.27.0.post1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'TVM_NUM_THREADS': '1'})  # before PyTorch is imported
import torch
import tvm
from tvm.relax.frontend.torch import from_exported_program
import numpy as np
PACKAGES = ('torch', 'apache-tvm')
PROPERTIES = {'kind': 'llvm'}

class Model(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.where(x0 > 0, x0, x1)

class Entropy(torch.nn.Module):
    def forward(self, x0):
        return torch.special.entr(x0)

CASES = {
    "smallest": (Model, lambda: (torch.tensor([1.0]), torch.tensor([2.0], dtype=torch.float64))),
    "ordinary size": (Model, lambda: (torch.linspace(-1, 1, 32).reshape(4, 8), torch.arange(32).reshape(4, 8))),
    "entr": (Entropy, lambda: (torch.linspace(0.1, 1, 32, dtype=torch.float64).reshape(4, 8),)),
}
FAILURE = ("TypeError", "Binary operators must have the same datatype for both operands")

def run(model, fresh):
    module = from_exported_program(torch.export.export(model, fresh()))
    program = tvm.compile(module, tvm.target.Target(PROPERTIES))
    machine = tvm.relax.VirtualMachine(program, tvm.cpu())
    main, given = machine["main"], [tvm.runtime.tensor(a.numpy()) for a in fresh()]
    found = main(*given)
    return [torch.as_tensor(np.array(value.numpy())) for value in found]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    try:
        run(Model().eval(), fresh)
        print(f"{name}: tvm/cpu@threads=1 runs it")
    except Exception as problem:
        print(f"{name}: tvm/cpu@threads=1 raised:", type(problem).__name__, str(problem)[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem)):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
