"""tvm/cpu: `argmax` of uint8 zeros, or of all -inf, is -1 (as is `argmin` of all inf)

Condition: no element exceeds the dtype's least finite value (argmax: all are -inf or that value, 0 for uint8; argmin:
all are inf or the greatest value).
Seen with torch 2.13.0+cpu, apache-tvm 0.27.0.post1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import os, platform, sys
from importlib.metadata import version
from math import inf, nan
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'TVM_NUM_THREADS': '1'})  # before PyTorch is imported
import torch, tvm, numpy as np
from tvm.relax.frontend.torch import from_exported_program
PACKAGES = ('torch', 'apache-tvm')
PROPERTIES = {'kind': 'llvm'}
COMPARE = "equal"

class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.argmin(x0)

class Rows(torch.nn.Module):
    def forward(self, x0):
        return torch.argmax(x0, 1)

CASES = {
    "smallest": (Model, lambda: (torch.tensor([inf]),)),
    "ordinary size": (Rows, lambda: (torch.tensor([[0, 0, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0]], dtype=torch.uint8),)),
    "masked row": (Rows, lambda: (torch.tensor([[0.5, 2.0, -inf, -inf], [-inf, -inf, -inf, -inf]]),)),
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
