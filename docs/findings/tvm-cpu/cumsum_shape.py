"""tvm/cpu: `cumsum` and `cumprod` of int32, int8 or uint8 keep the dtype: int32 for int64, -56 for 200 in int8

Condition: the input is an integer narrower than int64, and `dtype` is not given.
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
COMPARE = "equal"

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.cumsum(x, 0)

class Product(torch.nn.Module):
    def forward(self, x):
        return torch.cumprod(x, 0)

CASES = {
    "smallest": (Model, lambda: (torch.tensor([100, 100], dtype=torch.int8),)),
    "int32": (Model, lambda: (torch.ones(32, 4, dtype=torch.int32),)),
    "ordinary size": (Model, lambda: (torch.arange(64, dtype=torch.uint8).reshape(16, 4) * 4,)),
    "cumprod": (Product, lambda: (torch.full((8, 4), 3, dtype=torch.int32),)),
}

def run(model, fresh):
    module = from_exported_program(torch.export.export(model, fresh()))
    program = tvm.compile(module, tvm.target.Target(PROPERTIES))
    machine = tvm.relax.VirtualMachine(program, tvm.cpu())
    main, given = machine["main"], [tvm.runtime.tensor(a.numpy()) for a in fresh()]
    found = main(*given)
    return [torch.as_tensor(np.array(value.numpy())) for value in found]

def off(found, right):
    """0 where elements are equal, else infinity: nothing here is rounded but by a cast. NaN equals NaN."""
    return torch.where((found == right) | (found.isnan() & right.isnan()), 0.0, torch.inf)

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out]) if each.numel()]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager = flat(Model().eval()(*fresh()))
    for number, (e, a) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), strict=True)):
        far = off(a, e) if (a.dtype, a.shape) == (e.dtype, e.shape) else torch.full(e.shape, torch.inf)
        error, limit = far.max().item(), 16 * torch.finfo(torch.result_type(e, 1.0)).eps
        at = torch.unravel_index(far.argmax(), e.shape)
        fault |= (wrong := error > limit)
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}, error {error:.3g}, limit {limit:.3g}"
        print(f"{name}, output {number}: {words}{': wrong' * wrong}")
        print(f"  at {[*map(int, at)]}: eager {e[at]}  tvm/cpu@threads=1 {a[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
