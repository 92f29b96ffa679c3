"""openvino/cpu: a constant without elements becomes a scalar 0; so `embedding_bag(padding_idx)` fails

Condition: an initializer or Constant of the ONNX model has no element, and another operator than Concat (at the top
level) reads it, or it is an output.
Seen with torch 2.13.0+cpu, openvino 2026.4.1, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import platform, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
import openvino
import numpy as np
PACKAGES = ('torch', 'openvino', 'onnx', 'onnxscript')
PROPERTIES = {'INFERENCE_PRECISION_HINT': 'f32'}

class Model(torch.nn.Module):
    """Elements by a list of indices along the last dimension; the list is empty."""

    def __init__(self):
        super().__init__()
        self.register_buffer("indices", torch.zeros(0, dtype=torch.int64))

    def forward(self, x0):
        return torch.index_select(x0, -1, self.indices)

class Zeros(torch.nn.Module):
    def forward(self, x0):
        return torch.zeros_like(x0)

CASES = {
    "smallest": (Model, lambda: (torch.ones(1),)),
    "ordinary size": (Model, lambda: (torch.linspace(-1, 1, 48).reshape(8, 6),)),
    "zeros_like": (Zeros, lambda: (torch.ones(0, 1, 0),)),
}

def run(model, fresh):
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, fresh(), dynamo=True, verbose=False).save(f"{folder}/model.onnx")
        compiled = openvino.compile_model(f"{folder}/model.onnx", "CPU", PROPERTIES)
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
        print(f"  eager {e.flatten()[:4].tolist()}  openvino/cpu@frontend=onnx,precision=f32 {a.flatten()[:4].tolist()}")
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
