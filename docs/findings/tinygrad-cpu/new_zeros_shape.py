"""tinygrad/cpu: `x.new_zeros([])` in another dtype than float32 has one dimension

Condition: the shape is empty, and the model says the value: `new_zeros` whose result is not float32, a
`ConstantOfShape` with a `value` of one dimension.
Seen with torch 2.13.0+cpu, tinygrad 0.14.0, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import os, platform, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'DEV': 'CPU', 'PARALLEL': '0'})  # before PyTorch is imported
import torch
from tinygrad import Tensor
from tinygrad.nn.onnx import OnnxRunner
import numpy as np
PACKAGES = ('torch', 'tinygrad', 'onnx', 'onnxscript')

class Model(torch.nn.Module):
    def forward(self, x0):
        return x0.new_zeros([])

CASES = {
    "smallest": (Model, lambda: (torch.zeros(1, dtype=torch.float64),)),
    "of integers": (Model, lambda: (torch.zeros(4, 8, dtype=torch.int64),)),
}

def run(model, fresh):
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, fresh(), dynamo=True, verbose=False).save(f"{folder}/model.onnx")
        runner = OnnxRunner(f"{folder}/model.onnx")
    found = runner({n: Tensor(a.numpy()) for n, a in zip(runner.graph_inputs, fresh(), strict=True)})
    return [torch.as_tensor(np.array(value.numpy())) for value in found.values()]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    eager = flat(Model().eval()(*fresh()))
    for number, (e, a) in enumerate(zip(eager, flat(run(Model().eval(), fresh)), strict=True)):
        fault |= (wrong := (a.dtype, a.shape) != (e.dtype, e.shape))
        words = f"{a.dtype}{list(a.shape)} for {e.dtype}{list(e.shape)}{': wrong' * wrong}"
        print(f"{name}, output {number}: {words}")
        print(f"  eager {e.flatten()[:4].tolist()}  tinygrad/cpu {a.flatten()[:4].tolist()}")
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
