"""onnx/reference: `GatherElements` with a negative axis refuses indices that are smaller than the data

Condition: the axis is negative and the indices have another size than the data there (`torch.gather(x, -1, i)`,
`quantile`, whose export has axis -1); or, with any axis, another size in another dimension.
Seen with torch 2.13.0+cpu, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, onnx.reference, onnx.reference.op_run, onnx.version_converter, numpy as np
PACKAGES = ('torch', 'onnx', 'onnxscript')

class Model(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.gather(x0, 1, x1)

class Last(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.gather(x0, -1, x1)

class Quantile(torch.nn.Module):
    def forward(self, x0):
        return torch.quantile(x0, 0.5, dim=1)

CASES = {
    "smallest": (Last, lambda: (torch.zeros(2), torch.zeros(1, dtype=torch.int64))),
    "ordinary size": (Last, lambda: (torch.linspace(-1, 1, 32).reshape(4, 8), torch.arange(12).reshape(4, 3) % 8)),
    "other dimension": (Model, lambda: (torch.linspace(-1, 1, 32).reshape(4, 8), torch.arange(6).reshape(2, 3),)),
    "quantile": (Quantile, lambda: (torch.linspace(-1, 1, 32).reshape(4, 8),)),
}
FAILURE = ("ValueError", "all dimensions of index and self should be the same size")

def run(model, fresh):
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    onnx.checker.check_model(program.model_proto, full_check=True)
    evaluator = onnx.reference.ReferenceEvaluator(program.model_proto)
    feeds = {name: tensor.numpy() for name, tensor in zip(evaluator.input_names, fresh(), strict=True)}
    return [torch.as_tensor(np.asarray(array)) for array in evaluator.run(None, feeds)]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    try:
        run(Model().eval(), fresh)
        print(f"{name}: onnx/reference runs it")
    except Exception as problem:
        print(f"{name}: onnx/reference raised:", type(problem).__name__, str(problem)[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem)):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
