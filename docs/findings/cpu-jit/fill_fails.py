"""cpu/jit: `torch.fill(x, 2.0)` cannot be traced: the tracer writes `full_like`, with other arguments

Condition: `torch.fill` is called, with a number or a tensor.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
PACKAGES = ('torch',)

class Fill(torch.nn.Module):
    def forward(self, x):
        return torch.fill(x, 2.0) + x

class FillTensor(torch.nn.Module):
    def forward(self, x, value):
        return torch.fill(x, value)

CASES = {
    "smallest": (Fill, lambda: (torch.ones(1),)),
    "ordinary size": (Fill, lambda: (torch.ones(4, 16),)),
    "by a tensor": (FillTensor, lambda: (torch.ones(3), torch.tensor(2.0))),
}
FAILURE = ("RuntimeError", "We don't have an op for aten::full_like")

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
