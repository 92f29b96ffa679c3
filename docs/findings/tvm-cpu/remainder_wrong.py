"""tvm/cpu: `x % y` of floats is `x - y * floor(x / y)`: 1.0 % 0.1 is 0, 1e9 % 7 is 64

Condition: the quotient rounds up to a whole number (1.0 by 0.1), or is so large that its rounding counts (1e9 by 7;
3e38 by 0.5 is -inf), or the divisor is inf (NaN).
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
import torch

class Model(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.remainder(x0, x1)

class Phase(torch.nn.Module):
    """The time within a period of a tenth of a second."""
    def forward(self, seconds):
        return seconds % 0.1

CASES = {
    "smallest": (Model, lambda: (torch.tensor([1.0]), torch.tensor([0.1]))),
    "seconds": (Phase, lambda: (torch.arange(1.0, 17.0).reshape(4, 4),)),
}
EXACT = False

def run(model, fresh):
    module = from_exported_program(torch.export.export(model, fresh()))
    program = tvm.compile(module, tvm.target.Target(PROPERTIES))
    machine = tvm.relax.VirtualMachine(program, tvm.cpu())
    main, given = machine["main"], [tvm.runtime.tensor(a.numpy()) for a in fresh()]
    found = main(*given)
    return [torch.as_tensor(np.array(value.numpy())) for value in found]

def off(found, right):
    """How far each element is off, relative to the largest of `right`; inf where NaN, inf or integers differ."""
    f, r, real = found.to(torch.complex128), right.to(torch.complex128), right.is_floating_point() or right.is_complex()
    far = ((f - r).abs() / (max(r[r.isfinite()].abs().tolist(), default=0) or 1) / real).nan_to_num(torch.inf, torch.inf)
    return torch.where((found == right) | (found.isnan() & right.isnan()), 0.0, far)

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
