"""openvino/cpu: a product of integer matrices plus, minus or times a constant vector does not compile; nor `linear(x, w) + c`

Condition: the number of columns of the product is dynamic, as the front end makes each dimension of an exported
program, the second factor is no constant, and the vector is a constant of more than one element; integers, or float32
with `linear`.
Seen with torch 2.13.0+cpu, openvino 2026.4.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, openvino, numpy as np
PACKAGES = ('torch', 'openvino')
PROPERTIES = {}
FAILURE = ("RuntimeError", "dnnl_postops_composer.cpp")

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("vector", torch.arange(4, dtype=torch.int32))
    def forward(self, a, b):
        return torch.matmul(a, b) + self.vector

class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("vector", torch.tensor([0.5, 1.0, 1.5, 2.0]))
    def forward(self, x, weight):
        return self.vector + torch.nn.functional.linear(x, weight)

def integers():
    return torch.arange(16, dtype=torch.int32).reshape(4, 4)

CASES = {
    "smallest": (Model, lambda: (torch.tensor([[1]], dtype=torch.int32), torch.tensor([[1]], dtype=torch.int32))),
    "ordinary size": (Model, lambda: (integers(), integers())),
    "linear of float32": (Linear, lambda: (torch.ones(2, 4, 4), torch.ones(4, 4))),
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
        print(f"{name}: openvino/cpu runs it")
    except Exception as problem:
        print(f"{name}: openvino/cpu raised:", type(problem).__name__, str(problem)[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem)):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
