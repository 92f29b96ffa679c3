"""cpu/aotinductor: a complex number as the value of `torch.full` does not compile ahead of time; so `sgn` and `where` of complex numbers

Condition: a kernel that is called through the proxy executor has a complex number among its arguments: `x *
torch.full((3,), 2j)`, `torch.where(x != 0, x, torch.full((), 1j))`, and `sgn`, of which constant folding makes such a
call.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'TORCHINDUCTOR_COMPILE_THREADS': '1'})  # before PyTorch is imported
import torch
PACKAGES = ('torch',)

class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.sgn(x0)

class Product(torch.nn.Module):
    def forward(self, x0):
        return x0 * torch.full((3,), 2j)

CASES = {
    "a product": (Product, lambda: (torch.tensor([1 + 1j, 0j, 2j]),)),
    "smallest": (Model, lambda: (torch.tensor([1 + 1j]),)),
    "ordinary size": (Model, lambda: (torch.complex(torch.linspace(-1, 1, 32), torch.linspace(2, 0, 32)).reshape(4, 8),)),
}
FAILURE = ("InductorError", "AssertionError")

def run(model, fresh):
    package = torch._inductor.aoti_compile_and_package(torch.export.export(model, fresh()))
    return torch._inductor.aoti_load_package(package)(*fresh())

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    try:
        run(Model().eval(), fresh)
        print(f"{name}: cpu/aotinductor runs it")
    except Exception as problem:
        print(f"{name}: cpu/aotinductor raised:", type(problem).__name__, str(problem)[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem)):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
