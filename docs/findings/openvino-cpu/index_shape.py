"""openvino/cpu: `x[mask, index]` and `x[:, mask]` with a mask of two dimensions or more have another shape

Condition: a tensor of bools of two dimensions or more indexes a tensor beside a tensor of integers, or behind a slice
(`x[:, mask]`, `x[..., mask]`).
Seen with torch 2.13.0+cpu, openvino 2026.4.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, openvino, numpy as np
PACKAGES = ('torch', 'openvino')
PROPERTIES = {'INFERENCE_PRECISION_HINT': 'f32'}
import torch

class Cells(torch.nn.Module):
    """One channel of the cells that a mask selects."""
    def forward(self, cells, mask):
        return cells[mask, torch.tensor([1])]

class Batch(torch.nn.Module):
    """The cells that a mask selects, in each of a batch."""
    def forward(self, batch, mask):
        return batch[:, mask]

CASES = {
    "smallest": (Cells, lambda: (torch.arange(8.0).reshape(2, 2, 2), torch.eye(2) > 0)),
    "ordinary size": (Cells, lambda: (torch.arange(96.0).reshape(4, 8, 3), torch.eye(4, 8) > 0)),
    "batch": (Batch, lambda: (torch.arange(96.0).reshape(3, 4, 8), torch.eye(4, 8) > 0)),
}

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
