"""litert/cpu: `max_pool2d` with a one-element `kernel_size` or `padding` pools or pads one dimension

Condition: `kernel_size` or `padding` is a list or tuple of one element, which PyTorch takes for both dimensions (4-d
input); a one-element `stride` fails with a message.
Seen with torch 2.13.0+cpu, litert-torch 0.10.0, ai-edge-litert 2.3.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'JAX_PLATFORMS': 'cpu'})  # before PyTorch is imported
import torch
import litert_torch
import numpy as np
PACKAGES = ('torch', 'litert-torch', 'ai-edge-litert')

COMPARE = "equal"

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.max_pool2d(x, [2])

class Padded(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.max_pool2d(x, 2, padding=[1])

CASES = {
    "smallest": (Model, lambda: (torch.arange(4.0).reshape(1, 1, 2, 2),)),
    "ordinary size": (Model, lambda: (torch.rand(1, 8, 32, 32, generator=torch.Generator().manual_seed(1)),)),
    "padding": (Padded, lambda: (torch.rand(1, 8, 32, 32, generator=torch.Generator().manual_seed(1)),)),
}

def run(model, fresh):
    converted = litert_torch.convert(model, fresh(), enable_x64=True)
    found = converted(*(a.numpy() for a in fresh()))
    return [torch.as_tensor(np.array(array)) for array in (found if isinstance(found, tuple) else (found,))]

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
        place, limit = far.argmax(), 16 * torch.finfo(torch.result_type(e, 1.0)).eps
        error, at = far.flatten()[place].item(), [*map(int, torch.unravel_index(place, e.shape))]
        fault |= (wrong := error > limit)
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}, error {error:.3g}, limit {limit:.3g}"
        print(f"{name}, output {number}: {words}{': wrong' * wrong}")
        e, a = (value.flatten()[place].item() for value in (e, a))
        print(f"  at {at}: eager {e}  litert/cpu@threads=1,x64=on {a}")
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
