"""cpu/jit: `masked_fill(mask, False)`, `torch.full(size, True)`, `torch.where(mask, True, False)` and `x == True` cannot be traced

Condition: a Python bool is given where the operator takes a number.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
PACKAGES = ('torch',)

class Mask(torch.nn.Module):
    """A mask of which some places are taken out."""
    def forward(self, mask, padding):
        return mask.masked_fill(padding, False)

class Full(torch.nn.Module):
    def forward(self, mask):
        return torch.full((2,), True) & mask

class Where(torch.nn.Module):
    def forward(self, mask):
        return torch.where(mask, True, False)

bools = lambda *size: torch.arange(torch.Size(size).numel()).reshape(size) % 2 == 0

CASES = {
    "smallest": (Full, lambda: (bools(2),)),
    "ordinary size": (Mask, lambda: (bools(2, 8, 8), ~bools(2, 8, 8))),
    "where": (Where, lambda: (bools(2),)),
}
FAILURE = ("RuntimeError", "We don't have an op for aten::")

def run(model, fresh):
    traced = torch.jit.trace(model, fresh(), check_trace=False)
    for _ in range(3):  # TorchScript optimises after the first runs
        traced(*fresh())
    return traced(*fresh())

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    try:
        run(Model().eval(), fresh)
        print(f"{name}: cpu/jit runs it")
    except Exception as problem:
        print(f"{name}: cpu/jit raised:", type(problem).__name__, str(problem)[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem)):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
