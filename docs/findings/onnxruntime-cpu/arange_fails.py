"""onnxruntime/cpu: `torch.arange(0, 4.0)`, from an integer to a float, is int64: with floats it makes a model that does not load

Condition: start is an integer and end a float, and neither step nor `dtype` is given (returned as it is, the result
is int64 for float32, without a message).
Seen with torch 2.13.0+cpu, onnxruntime 1.31.1, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, onnxruntime
PACKAGES = ('torch', 'onnxruntime', 'onnx', 'onnxscript')
import torch

class Model(torch.nn.Module):
    def forward(self, x0):
        return x0 + torch.arange(0, 4.0)

CASES = {"smallest": (Model, lambda: (torch.zeros(4),)), "ordinary size": (Model, lambda: (torch.zeros(64, 4),))}
FAILURE = ("Fail", "Type parameter (T) of Optype")

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
