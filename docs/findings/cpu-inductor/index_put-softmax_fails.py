"""cpu/inductor: `softmax` of scores with a mask that is written by indices does not compile: KeyError 'buf1'

Condition: a constant is written by an index (`mask[rows, columns] = 0`) and used in `softmax` in the same kernel.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'TORCHINDUCTOR_COMPILE_THREADS': '1'})  # before PyTorch is imported
import torch
PACKAGES = ('torch',)

class Diagonal(torch.nn.Module):
    """Scores with a mask whose diagonal is written into it."""
    def forward(self, scores):
        mask, rows = torch.full((8, 8), -10000.0), torch.arange(8)
        mask[rows.unsqueeze(0), rows.unsqueeze(1)] = 0
        return torch.softmax(scores + mask, -1)

CASES = {
    "ordinary size": (Diagonal, lambda: (torch.linspace(-1, 1, 64).reshape(8, 8),)),
}
FAILURE = ("KeyError", "buf1")

def run(model, fresh):
    compiled = torch.compile(model, fullgraph=True, dynamic=False)
    return compiled(*fresh())

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    try:
        run(Model().eval(), fresh)
        print(f"{name}: cpu/inductor runs it")
    except Exception as problem:
        print(f"{name}: cpu/inductor raised:", type(problem).__name__, str(problem)[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem)):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
