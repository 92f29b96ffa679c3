"""jax/cpu: `searchsorted` in a batch of sorted rows fails

Condition: `sorted_sequence` has two or more dimensions.
Seen with torch 2.13.0+cpu, jax 0.10.2, torchax 0.0.13.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import importlib, os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'JAX_PLATFORMS': 'cpu', 'NPROC': '1'})  # before PyTorch is imported
import torch, jax, numpy as np
PACKAGES = ('torch', 'jax', 'torchax')
FAILURE = ("ValueError", "a should be 1-dimensional")

class Model(torch.nn.Module):
    def forward(self, rows, values):
        return torch.searchsorted(rows, values)

def random(*shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(1))

CASES = {
    "smallest": (Model, lambda: (torch.tensor([[1.0]]), torch.tensor([[2.0]]))),
    "ordinary size": (Model, lambda: (random(8, 64).sort(1)[0], random(8, 16))),
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
