"""onnxruntime/cpu: `scatter`, `scatter_add` and `scatter_reduce` with a source that is larger than the index fail when they run

Condition: the source has more elements than the index in a dimension, as PyTorch allows: it reads the elements at the
index's places (an empty index too).
Seen with torch 2.13.0+cpu, onnxruntime 1.31.1, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, onnxruntime
PACKAGES = ('torch', 'onnxruntime', 'onnx', 'onnxscript')
import torch

class Scatter(torch.nn.Module):
    def forward(self, x0, index, source):
        return x0.scatter(1, index, source)

class Sums(torch.nn.Module):
    def forward(self, x0, index, source):
        return x0.scatter_add(0, index, source)

CASES = {
    "smallest": (Scatter, lambda: (torch.zeros(1, 2), torch.tensor([[1]]), torch.ones(1, 2))),
    "scatter_add": (Sums, lambda: (torch.zeros(4, 8), torch.zeros(2, 8, dtype=torch.long), torch.ones(4, 8))),
}
FAILURE = ("InvalidArgument", "Indices vs updates dimensions differs")

def run(model, fresh):
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), fresh(), strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]

flat = lambda out: [each.detach() for each in (out if isinstance(out, (tuple, list)) else [out])]
print(*(f"{p} {version(p)}" for p in PACKAGES), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in flat(Model().eval()(*fresh()))))
    try:
        run(Model().eval(), fresh)
        print(f"{name}: onnxruntime/cpu runs it")
    except Exception as problem:
        print(f"{name}: onnxruntime/cpu raised:", type(problem).__name__, str(problem)[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem)):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
