"""xla/eager: `linalg.svd` of a batch has the shapes of one matrix: `Vh`, rank, norm are wrong

Condition: the input has more than two dimensions, and `Vh` is used or the dimensions of the singular values count
(`sum(-1)`, `matrix_norm` with 'nuc', `matrix_rank`).
Seen with torch 2.9.0, torch_xla 2.9.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'OMP_NUM_THREADS': '1', 'MKL_NUM_THREADS': '1', 'OMP_DYNAMIC': 'FALSE', 'MKL_DYNAMIC': 'FALSE', 'NPROC': '1'})  # before PyTorch is imported
import torch, torch_xla
PACKAGES = ('torch', 'torch_xla')

class Nuclear(torch.nn.Module):
    def forward(self, x):
        return (torch.linalg.matrix_norm(x, "nuc"),)

class Sum(torch.nn.Module):
    def forward(self, x):
        return (torch.linalg.svdvals(x).sum(-1),)

class Vh(torch.nn.Module):
    def forward(self, x):
        return (torch.linalg.svd(x)[2],)

CASES = {
    "smallest": (Nuclear, lambda: (torch.ones(1, 2, 2),)),
    "ordinary size": (Nuclear, lambda: (torch.arange(64.0).sin().reshape(4, 4, 4),)),
    "svdvals": (Sum, lambda: (torch.arange(64.0).sin().reshape(4, 4, 4),)),
    "Vh": (Vh, lambda: (torch.arange(18.0).sin().reshape(2, 3, 3),)),
}

def run(model, fresh):
    device = "xla"
    found = model.to(device)(*(a.to(device) for a in fresh()))
    return [value.cpu() for value in (found if isinstance(found, (tuple, list)) else (found,))]

def off(found, right):
    """How far each element is off, relative to the largest of `right`; inf where NaN, inf or integers differ."""
    f, r, real = found.to(torch.complex128), right.to(torch.complex128), right.is_floating_point() or right.is_complex()
    far = ((f - r).abs() / (max(r[r.isfinite()].abs().tolist(), default=0) or 1) / real).nan_to_num(torch.inf, torch.inf)
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
        print(f"  at {[*map(int, at)]}: eager {e[at]}  xla/eager@threads=1 {a[at]}  float64 {x[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
