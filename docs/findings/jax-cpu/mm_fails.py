"""jax/cpu: `out=` of `mm`, `matmul`, `exp`, `cat`, `sum` and most other functions fails

Condition: `out` is given and torchax does not list the function (run: `mm`, `matmul`, `bmm`, `addmm`, `exp`, `cat`,
`sum`, `maximum`).
Seen with torch 2.13.0+cpu, jax 0.10.2, torchax 0.0.13.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import importlib, os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'JAX_PLATFORMS': 'cpu', 'NPROC': '1'})  # before PyTorch is imported
import torch, jax, numpy as np
PACKAGES = ('torch', 'jax', 'torchax')
FAILURE = ("TypeError", "got an unexpected keyword argument 'out'")

class MM(torch.nn.Module):
    def forward(self, out, x, y):
        return torch.mm(x, y, out=out)

class Exp(torch.nn.Module):
    def forward(self, out, x):
        return torch.exp(x, out=out)

CASES = {
    "smallest": (MM, lambda: (torch.ones(1, 1), torch.ones(1, 1), torch.ones(1, 1))),
    "ordinary size": (MM, lambda: (torch.zeros(8, 4), torch.ones(8, 16), torch.ones(16, 4))),
    "exp": (Exp, lambda: (torch.zeros(4), torch.ones(4))),
}

packet = type(torch.ops.aten.add)  # torchax 0.0.13 names overloads that PyTorch 2.13 lacks: any object will do
original = packet.__getattr__
packet.__getattr__ = lambda self, name: object() if "imname" in name or "names" in name else original(self, name)
torchax = importlib.import_module("torchax")
loaded, packet.__getattr__ = torchax.default_env(), original

def run(model, fresh):
    torchax.enable_accuracy_mode()
    weights, function = torchax.extract_jax(model)
    compiled, given = jax.jit(function), jax.tree.map(loaded.t2j_copy, fresh())
    found = compiled(weights, given)
    return [torch.as_tensor(np.array(array)) for array in jax.tree.leaves(found)]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    try:
        run(Model().eval(), fresh)
        print(f"{name}: jax/cpu@mode=accuracy,threads=1 runs it")
    except Exception as problem:
        print(f"{name}: jax/cpu@mode=accuracy,threads=1 raised:", type(problem).__name__, str(problem)[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem)):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
