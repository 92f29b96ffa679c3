"""openvino/cpu: `embedding_bag` with `per_sample_weights` of a dynamic length does not compile

Condition: `per_sample_weights` is given and its length or that of the indices is dynamic, as for every converted
exported program (`torch.nn.EmbeddingBag` and indices with offsets too).
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

FAILURE = ("RuntimeError", "to_shape was called on a dynamic shape")

class Model(torch.nn.Module):
    def forward(self, x0, x1, x2):
        return torch.nn.functional.embedding_bag(x0, x1, mode='sum', per_sample_weights=x2)

CASES = {
    "smallest": (Model, lambda: (torch.tensor([[0]]), torch.ones(1, 1), torch.ones(1, 1))),
    "ordinary size": (Model, lambda: (torch.tensor([[0, 1, 2], [3, 5, 4]]), torch.linspace(-1, 1, 48).reshape(6, 8), torch.ones(2, 3))),
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
