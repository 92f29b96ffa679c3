"""openvino/cpu: `torch.arange(0.0, 0.6, 0.2)` has four elements, not three; `torch.arange(0.3, 0.9, 0.2)` has three, not four

Condition: start, end or step is a float, and (end - start) / step is a whole number but for rounding: float32 rounds
it to another side than float64 does (`dtype=torch.float64` too).
Seen with torch 2.13.0+cpu, openvino 2026.4.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, openvino, numpy as np
PACKAGES = ('torch', 'openvino')
PROPERTIES = {'INFERENCE_PRECISION_HINT': 'f32'}
import torch

class Model(torch.nn.Module):
    def forward(self, x0):
        return x0.sum() * torch.arange(0.0, 0.6, 0.2)

class Grid(torch.nn.Module):
    """Values on a grid of a fifth."""
    def forward(self, x):
        return x[:, None] * torch.arange(0.3, 0.9, 0.2)

CASES = {"one too many": (Model, lambda: (torch.ones(1),)), "one too few": (Grid, lambda: (torch.ones(8),))}

def run(model, fresh):
    converted = openvino.convert_model(torch.export.export(model, fresh()))
    compiled = openvino.compile_model(converted, "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in fresh()]).values()]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager = flat(Model().eval()(*fresh()))
    for number, (e, a) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), strict=True)):
        fault |= (wrong := (a.dtype, a.shape) != (e.dtype, e.shape))
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}{': wrong' * wrong}"
        print(f"{name}, output {number}: {words}")
        print(f"  eager {e.flatten()[:4].tolist()}  openvino/cpu@precision=f32 {a.flatten()[:4].tolist()}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
