"""cpu/inductor: attention over five dimensions of size 1 before a linear layer does not compile: addmm of a batch

Condition: `softmax(q @ k.transpose(-2, -1) / scale) @ v` of five dimensions whose first ones are 1 is viewed as three
dimensions and goes to a linear layer.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'TORCHINDUCTOR_COMPILE_THREADS': '1'})  # before PyTorch is imported
import torch
PACKAGES = ('torch',)

class Attention(torch.nn.Module):
    """Attention in one group and one head, with its output layer."""
    def __init__(self):
        super().__init__()
        self.out = torch.nn.Linear(8, 8)

    def forward(self, q, k, v):
        q, k, v = q.view(1, 1, 2, 1, 8), k.view(1, 1, 2, 2, 8), v.view(1, 1, 2, 2, 8)
        mixed = (q @ k.transpose(-2, -1) / 8**0.5).softmax(-1) @ v
        return self.out(mixed.view(2, 1, 8))

CASES = {"one head": (Attention, lambda: (torch.zeros(2, 1, 8), torch.zeros(2, 2, 8), torch.zeros(2, 2, 8)))}
FAILURE = ("RuntimeError", "a must be 2D")

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
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
