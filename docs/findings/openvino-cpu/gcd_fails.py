"""openvino/cpu: `gcd` of 2-d tensors converts and fails when it runs; of three dimensions or more it does not convert

Condition: the operands have two dimensions or more (int32, int64 and uint8 were run), also with a static shape if
there are two columns or more, and OpenVINO has two threads or more (with INFERENCE_NUM_THREADS=1 it is right).
Seen with torch 2.13.0+cpu, openvino 2026.4.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
import openvino
import numpy as np
PACKAGES = ('torch', 'openvino')
PROPERTIES = {'INFERENCE_PRECISION_HINT': 'f32'}

FAILURE = ("RuntimeError", "Check 'mem->getShape() == Shape(VectorDims{1})' failed")

class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.gcd(x, y)

CASES = {
    "smallest": (Model, lambda: (torch.tensor([[4, 9]]), torch.tensor([[6, 6]]))),
    "ordinary size": (Model, lambda: (torch.arange(1, 129).reshape(8, 16) * 6, torch.arange(1, 129).reshape(8, 16) * 4)),
}

def run(model, fresh):
    converted = openvino.convert_model(torch.export.export(model, fresh()))
    compiled = openvino.compile_model(converted, "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in fresh()]).values()]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    try:
        run(Model().eval(), fresh)
        print(f"{name}: openvino/cpu@precision=f32 runs it")
    except Exception as problem:
        print(f"{name}: openvino/cpu@precision=f32 raised:", type(problem).__name__, str(problem)[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem)):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
