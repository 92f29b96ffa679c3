"""cpu/inductor: masked attention written by hand with a tensor as its scale does not compile

Condition: `softmax(q @ k.transpose(-2, -1) / scale + mask) @ v`, where `scale` is a tensor of 0 dimensions.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'TORCHINDUCTOR_COMPILE_THREADS': '1'})  # before PyTorch is imported
import torch
PACKAGES = ('torch',)

class Attention(torch.nn.Module):
    """Masked attention with a scale that is a tensor, as one that is learnt."""
    def forward(self, q, k, v, mask, scale):
        return torch.softmax(q @ k.transpose(-2, -1) / scale + mask, -1) @ v

CASES = {
    "ordinary size": (Attention, lambda: (*(torch.linspace(-1, s, 128).reshape(1, 2, 8, 8) for s in (1, 2, 3)), torch.full((8, 8), -1e9).triu(1), torch.tensor(0.5))),
}
FAILURE = ("RuntimeError", "Expected a value of type 'Optional[float]' for argument 'scale'")

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
