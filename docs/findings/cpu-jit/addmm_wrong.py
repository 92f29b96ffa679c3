"""cpu/jit: `torch.addmm(b, x, w)` of bfloat16 and float16 rounds the product before it adds `b`

Condition: the dtype is bfloat16 or float16, `alpha` and `beta` are 1, and product and addend cancel in part.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
PACKAGES = ('torch',)

class Affine(torch.nn.Module):
    """A layer written with `addmm`."""
    def forward(self, b, x, w):
        return torch.addmm(b, x, w)

def operands(dtype, rows, width):
    torch.manual_seed(0)
    return torch.randn(width).to(dtype), torch.randn(rows, width).to(dtype), torch.randn(width, width).to(dtype)

def cancelling(dtype):
    x, w = torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0], [2.0**-10]])
    return -torch.ones(1).to(dtype), x.to(dtype), w.to(dtype)

CASES = {
    "smallest": (Affine, lambda: cancelling(torch.bfloat16)),
    "ordinary size": (Affine, lambda: operands(torch.bfloat16, 64, 40)),
    "float16": (Affine, lambda: operands(torch.float16, 64, 40)),
}
COMPARE = "element"

def run(model, fresh):
    traced = torch.jit.trace(model, fresh(), check_trace=False)
    for _ in range(3):  # TorchScript optimises after the first runs
        traced(*fresh())
    return traced(*fresh())

def off(found, right):
    """How far each element is off, relative to the element of `right`; inf where NaN, inf or integers differ."""
    f, r, real = found.to(torch.complex128), right.to(torch.complex128), right.is_floating_point() or right.is_complex()
    far = ((f - r).abs() / r.abs() / real).nan_to_num(torch.inf, torch.inf)
    return torch.where((found == right) | (found.isnan() & right.isnan()), 0.0, far)

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out]) if each.numel()]
wide = lambda x: x.to(torch.promote_types(x.dtype, torch.float64)) if x.is_floating_point() or x.is_complex() else x
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager, exact = flat(Model().eval()(*fresh())), flat(Model().double().eval()(*map(wide, fresh())))
    for number, (e, a, x) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), exact, strict=True)):
        far = off(a, x) if (a.dtype, a.shape) == (e.dtype, e.shape) else torch.full(e.shape, torch.inf)
        error, limit = far.max().item(), 16 * max(off(e, x).max().item(), torch.finfo(torch.result_type(e, 1.0)).eps)
        at = torch.unravel_index(far.argmax(), e.shape)
        fault |= (wrong := error > limit)
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}, error {error:.3g}, limit {limit:.3g}"
        print(f"{name}, output {number}: {words}{': wrong' * wrong}")
        print(f"  at {[*map(int, at)]}: eager {e[at]}  cpu/jit {a[at]}  float64 {x[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
