"""cpu/inductor: `softmax` of a constant that is NaN does not compile

Condition: the operand of `softmax` is NaN at compile time, by constant folding of what is computed from constants,
and has few elements, so that the reduction is unrolled.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, sys
from importlib.metadata import version
from math import inf, nan
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'TORCHINDUCTOR_COMPILE_THREADS': '1'})  # before PyTorch is imported
import torch
PACKAGES = ('torch',)

class Constant(torch.nn.Module):
    def forward(self):
        return torch.softmax(torch.arccosh(torch.zeros(2, 2)), -1)

class Fold(torch.nn.Module):
    """A softmax of scores that a constant computation made NaN."""
    def forward(self):
        angle = torch.atan2(torch.ones(2, 2), torch.ones(2, 2))
        return torch.softmax(torch.arccosh(torch.log2(angle)), -1)

CASES = {"smallest": (Constant, lambda: ()), "scores": (Fold, lambda: ())}
FAILURE = ("ValueError", "The argument 'nan' is not comparable")

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
