"""litert/cpu: `conv_transpose1d(stride=2, padding=1)`, kernel 3: a bilinear resize, weights unused

Condition: a transposed convolution with stride s > 1 in one dimension only, kernel 2 * s - 1 and padding s - 1 there
(3, 2, 1, or 5, 3, 2, or 7, 4, 3), any groups; also kernel 3, stride 2, padding 1, output_padding 1. With as many
channels out as in the values are wrong. With one channel in, others out and constant weights too; else the model does
not load.
Seen with torch 2.13.0+cpu, litert-torch 0.10.0, ai-edge-litert 2.3.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'JAX_PLATFORMS': 'cpu'})  # before PyTorch is imported
import torch, litert_torch, numpy as np
PACKAGES = ('torch', 'litert-torch', 'ai-edge-litert')

class Model(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.nn.functional.conv_transpose1d(x0, x1, stride=2, padding=1)

class TwoDimensions(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.nn.functional.conv_transpose2d(x0, x1, stride=(1, 2), padding=(0, 1))

def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))

CASES = {
    "smallest": (Model, lambda: (torch.tensor([[[1.0]]]), torch.tensor([[[0.0, 2.0, 0.0]]]))),
    "ordinary size": (Model, lambda: (drawn(2, 16, 32), drawn(16, 16, 3))),
    "conv_transpose2d": (TwoDimensions, lambda: (drawn(2, 4, 5, 8), drawn(4, 4, 1, 3))),
}

def run(model, fresh):
    converted = litert_torch.convert(model, fresh(), enable_x64=True)
    found = converted(*(a.numpy() for a in fresh()))
    return [torch.as_tensor(np.array(array)) for array in (found if isinstance(found, tuple) else (found,))]

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
        print(f"  at {[*map(int, at)]}: eager {e[at]}  litert/cpu@threads=1,x64=on {a[at]}  float64 {x[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
