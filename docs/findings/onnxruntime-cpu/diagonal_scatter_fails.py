"""onnxruntime/cpu: `diagonal_scatter`, `x.diagonal().fill_(v)` and `x.diagonal().copy_(y)` fail at export

Condition: any input.
Seen with torch 2.13.0+cpu, onnxruntime 1.31.1, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
import onnxruntime
PACKAGES = ('torch', 'onnxruntime', 'onnx', 'onnxscript')

class Model(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.diagonal_scatter(x0, x1)

class Fill(torch.nn.Module):
    """Sets the diagonal of a matrix of similarities to 0."""

    def forward(self, x0):
        similarity = x0 @ x0.T
        similarity.diagonal().fill_(0.0)
        return similarity

CASES = {
    "smallest": (Model, lambda: (torch.zeros(1, 1), torch.ones(1))),
    "ordinary size": (Model, lambda: (torch.linspace(-1, 1, 16).reshape(4, 4), torch.ones(4))),
    "filled in place": (Fill, lambda: (torch.linspace(-1, 1, 32).reshape(4, 8),)),
}
FAILURE = ("AssertionError", "aot_autograd expected to have an entirely functional graph, but found %copy_to")

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
print("FAULT" if fault else "NO FAULT")
sys.exit(int(fault))
