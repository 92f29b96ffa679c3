"""tvm/cpu: `F.unfold` and `x[:, :, i, j]` with 2-d index tensors fail

Condition: an index with two or more dimensions left out and index tensors of which one has two dimensions above 1 or
more than two dimensions (F.unfold, interpolate of 5-d by nearest or trilinear).
Seen with torch 2.13.0+cpu, apache-tvm 0.27.0.post1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'TVM_NUM_THREADS': '1'})  # before PyTorch is imported
import torch, tvm, numpy as np
from tvm.relax.frontend.torch import from_exported_program
PACKAGES = ('torch', 'apache-tvm')
PROPERTIES = {'kind': 'llvm'}

class Model(torch.nn.Module):
    def forward(self, x0, x1):
        return x0[:, :, x1, x1]

class Patches(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.unfold(x0, 3, padding=1)

class Volume(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.interpolate(x0, scale_factor=2.0, mode="nearest")

CASES = {
    "smallest": (Model, lambda: (torch.arange(6.0).reshape(2, 3, 1, 1), torch.zeros(2, 2, dtype=torch.int64))),
    "ordinary size": (Patches, lambda: (torch.linspace(-1, 1, 384).reshape(2, 3, 8, 8),)),
    "5-d": (Volume, lambda: (torch.linspace(-1, 1, 384).reshape(2, 3, 4, 4, 4),)),
}
FAILURE = ("ValueError", "index_tensor: cannot broadcast index shapes")

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
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
