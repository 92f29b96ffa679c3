"""jax/cpu: `topk` gives int32 indices in 64-bit mode

Condition: JAX's 64-bit types are on (`torchax.enable_accuracy_mode()`) and the input has a dimension.
Seen with torch 2.13.0+cpu, jax 0.10.2, torchax 0.0.13.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import importlib, os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'JAX_PLATFORMS': 'cpu', 'NPROC': '1'})  # before PyTorch is imported
import torch
import jax
import numpy as np
PACKAGES = ('torch', 'jax', 'torchax')

class Last(torch.nn.Module):
    def forward(self, x):
        return torch.topk(x, 1)[1]

class First(torch.nn.Module):
    def forward(self, x):
        return torch.topk(x, 2, dim=0, largest=False)[1]

CASES = {
    "smallest": (Last, lambda: (torch.tensor([1.0]),)),
    "ordinary size": (First, lambda: (torch.randn(8, 16, generator=torch.Generator().manual_seed(0)),)),
}

packet = type(torch.ops.aten.add)  # torchax 0.0.13 names overloads that PyTorch 2.13 lacks: any object will do
original = packet.__getattr__
packet.__getattr__ = lambda self, name: object() if "imname" in name or "names" in name else original(self, name)
torchax = importlib.import_module("torchax")
loaded = torchax.default_env()
packet.__getattr__ = original

def run(model, fresh):
    torchax.default_env()
    torchax.enable_accuracy_mode()
    weights, function = torchax.extract_jax(model)
    compiled, given = jax.jit(function), jax.tree.map(torchax.default_env().t2j_copy, fresh())
    found = compiled(weights, given)
    return [torch.as_tensor(np.array(array)) for array in jax.tree.leaves(found)]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager = flat(Model().eval()(*fresh()))
    for number, (e, a) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), strict=True)):
        fault |= (wrong := (a.dtype, a.shape) != (e.dtype, e.shape))
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}{': wrong' * wrong}"
        print(f"{name}, output {number}: {words}")
        print(f"  eager {e.flatten()[:4].tolist()}  jax/cpu@mode=accuracy,threads=1 {a.flatten()[:4].tolist()}")
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
