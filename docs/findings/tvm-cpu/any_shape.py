"""tvm/cpu: `any(x, dim)` of a tensor that is not bool gives the maximum instead of a bool

Condition: `dim` is given and the dtype is not bool (any of [-1, 0] is then 0).
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
    def forward(self, x0):
        return torch.any(x0, 0)

class Rows(torch.nn.Module):
    def forward(self, x0):
        return torch.any(x0, 1)

CASES = {
    "smallest": (Model, lambda: (torch.tensor([0.0]),)),
    "ordinary size": (Rows, lambda: (torch.tensor([[-1.0, 0.0, -2.0], [0.0, 0.0, 0.0], [0.5, 0.0, 3.0]]),)),
    "int32": (Rows, lambda: (torch.tensor([[0, 2, 0], [0, 0, 0]], dtype=torch.int32),)),
}

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
    eager = flat(Model().eval()(*fresh()))
    for number, (e, a) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), strict=True)):
        fault |= (wrong := (a.dtype, a.shape) != (e.dtype, e.shape))
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}{': wrong' * wrong}"
        print(f"{name}, output {number}: {words}")
        print(f"  eager {e.flatten()[:4].tolist()}  tvm/cpu@threads=1 {a.flatten()[:4].tolist()}")
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
