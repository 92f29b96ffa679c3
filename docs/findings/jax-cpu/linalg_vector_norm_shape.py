"""jax/cpu: `linalg.vector_norm(x, 0)`, the number of elements that are not 0, is int32

Condition: the order is 0 and the input has a dimension; in 64-bit mode the dtype is float32, which is wrong for
float16, bfloat16 and float64.
Seen with torch 2.13.0+cpu, jax 0.10.2, torchax 0.0.13.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import importlib, os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'JAX_PLATFORMS': 'cpu', 'NPROC': '1'})  # before PyTorch is imported
import torch, jax, numpy as np
PACKAGES = ('torch', 'jax', 'torchax')
COMPARE = "equal"

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.linalg.vector_norm(x, 0)

class Rows(torch.nn.Module):
    def forward(self, x):
        return torch.norm(x, 0, dim=1)

CASES = {
    "smallest": (Model, lambda: (torch.tensor([2.0]),)),
    "ordinary size": (Rows, lambda: (torch.randn(8, 64, generator=torch.Generator().manual_seed(1)),)),
}

packet = type(torch.ops.aten.add)  # torchax 0.0.13 names overloads that PyTorch 2.13 lacks: any object will do
original = packet.__getattr__
packet.__getattr__ = lambda self, name: object() if "imname" in name or "names" in name else original(self, name)
torchax = importlib.import_module("torchax")
loaded, packet.__getattr__ = torchax.default_env(), original

def run(model, fresh):
    weights, function = torchax.extract_jax(model)
    compiled, given = jax.jit(function), jax.tree.map(loaded.t2j_copy, fresh())
    found = compiled(weights, given)
    return [torch.as_tensor(np.array(array)) for array in jax.tree.leaves(found)]

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
        print(f"  at {[*map(int, at)]}: eager {e[at]}  jax/cpu@threads=1 {a[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
