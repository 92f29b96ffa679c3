"""xla/eager: `as_strided` and `unsafe_chunk` of a slice start at the whole tensor's first element

Condition: the input is a slice that does not begin at the first element (`x[1:]`, `x[:, 2:]`, `narrow`), and
`as_strided` gets no `storage_offset`.
Seen with torch 2.9.0, torch_xla 2.9.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'OMP_NUM_THREADS': '1', 'MKL_NUM_THREADS': '1', 'OMP_DYNAMIC': 'FALSE', 'MKL_DYNAMIC': 'FALSE', 'NPROC': '1'})  # before PyTorch is imported
import torch
import torch_xla
PACKAGES = ('torch', 'torch_xla')
class Rows(torch.nn.Module):
    def forward(self, x):
        return (torch.as_strided(x[1:], (1,), (1,)),)
class Columns(torch.nn.Module):
    def forward(self, x):
        return (torch.as_strided(x[:, 2:], (4, 3), (6, 1)),)
class Chunks(torch.nn.Module):
    def forward(self, x):
        return tuple(torch.unsafe_chunk(x[1:], 2))
def numbers(*shape):
    return torch.arange(1, 1 + torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)
CASES = {
    "smallest": (Rows, lambda: (numbers(2),)),
    "ordinary size": (Columns, lambda: (numbers(4, 6),)),
    "unsafe_chunk": (Chunks, lambda: (numbers(9, 2),)),
}
def run(model, fresh):
    device = "xla"
    found = model.to(device)(*(a.to(device) for a in fresh()))
    return [value.cpu() for value in (found if isinstance(found, (tuple, list)) else (found,))]
def off(found, right):
    """How far each element is off, relative to the largest of `right`; inf where NaN, inf or integers differ."""
    f, r = found.to(torch.complex128), right.to(torch.complex128)
    apart = (f - r).abs() / (max(r[r.isfinite()].abs().tolist(), default=0) or 1)
    apart = apart if right.is_floating_point() or right.is_complex() else apart + torch.inf
    return torch.where((found == right) | (found.isnan() & right.isnan()), 0.0, apart.nan_to_num(torch.inf, torch.inf))
flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out]) if each.numel()]
wide = lambda x: x.to(torch.promote_types(x.dtype, torch.float64)) if x.is_floating_point() or x.is_complex() else x
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager = flat(Model().eval()(*fresh()))
    exact = flat(Model().double().eval()(*map(wide, fresh())))
    for number, (e, a, x) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), exact, strict=True)):
        far = off(a, x) if (a.dtype, a.shape) == (e.dtype, e.shape) else torch.full(e.shape, torch.inf)
        place, limit = far.argmax(), 16 * max([*off(e, x).flatten().tolist(), torch.finfo(torch.result_type(e, 1.0)).eps])
        error, at = far.flatten()[place].item(), [*map(int, torch.unravel_index(place, e.shape))]
        fault |= (wrong := error > limit)
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}, error {error:.3g}, limit {limit:.3g}"
        print(f"{name}, output {number}: {words}{': wrong' * wrong}")
        e, a, x = (value.flatten()[place].item() for value in (e, a, x))
        print(f"  at {at}: eager {e}  xla/eager@threads=1 {a}  float64 {x}")
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
