"""cpu/inductor: `lerp` of complex tensors with a complex number as its weight does not compile

Condition: the weight is a Python complex number.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'TORCHINDUCTOR_COMPILE_THREADS': '1'})  # before PyTorch is imported
import torch
PACKAGES = ('torch',)

class Between(torch.nn.Module):
    def forward(self, a, b):
        return torch.lerp(a, b, 0.5 + 0.5j)

CASES = {
    "smallest": (Between, lambda: (torch.zeros(1, dtype=torch.complex64), torch.ones(1, dtype=torch.complex64))),
    "spectra": (Between, lambda: (torch.fft.rfft(torch.arange(16.0)), torch.fft.rfft(torch.ones(16)))),
}
FAILURE = ("TypeError", "'>=' not supported between instances of 'complex' and 'float'")

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
