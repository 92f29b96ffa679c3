"""onnxruntime/cpu: `repeat_interleave(x, repeats, output_size=n)` with a tensor of repeats fails at export

Condition: `repeats` is a tensor and `output_size` is given, as torch.compile and torch.export need it for a shape
that they know.
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
        return torch.repeat_interleave(x0, x1, output_size=1)

class Rows(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.repeat_interleave(x0, x1, dim=0, output_size=6)

CASES = {
    "smallest": (Model, lambda: (torch.tensor([1.0]), torch.tensor([1]))),
    "ordinary size": (Rows, lambda: (torch.arange(12.0).reshape(3, 4), torch.tensor([1, 3, 2]))),
}
FAILURE = ("TypeError", "got an unexpected keyword argument 'output_size'")

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
