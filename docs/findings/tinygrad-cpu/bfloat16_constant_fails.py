"""tinygrad/cpu: a bfloat16 constant in a model fails

Condition: the model has a scalar constant of bfloat16, such as that of `x * 2`.
Seen with torch 2.13.0+cpu, tinygrad 0.14.0, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import os, platform, sys, tempfile
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
os.environ.update({'DEV': 'CPU', 'PARALLEL': '0', 'NUM_CPU_THREADS': '1'})  # before PyTorch is imported
import torch, numpy as np
from tinygrad import Tensor
from tinygrad.nn.onnx import OnnxRunner
PACKAGES = ('torch', 'tinygrad', 'onnx', 'onnxscript')
FAILURE = ("AssertionError", "no fmt dtype for dtypes.bfloat16")

class Model(torch.nn.Module):
    def forward(self, x0):
        return (x0.to(torch.bfloat16) * 2).float()

class Trapezoid(torch.nn.Module):
    def forward(self, x0):
        return torch.trapezoid(x0.to(torch.bfloat16)).float()

CASES = {
    "smallest": (Model, lambda: (torch.zeros(1),)),
    "ordinary size": (Trapezoid, lambda: (torch.linspace(-1, 1, 16),)),
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
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    try:
        run(Model().eval(), fresh)
        print(f"{name}: tinygrad/cpu@threads=1 runs it")
    except Exception as problem:
        print(f"{name}: tinygrad/cpu@threads=1 raised:", type(problem).__name__, str(problem)[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem)):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
