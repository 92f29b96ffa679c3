"""onnxruntime/cpu: `atleast_1d`, `atleast_2d`, `atleast_3d` of several bfloat16 tensors fail

Condition: two or more tensors are given at once and they are bfloat16.
Seen with torch 2.13.0+cpu, onnxruntime 1.31.1, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch, onnxruntime
PACKAGES = ('torch', 'onnxruntime', 'onnx', 'onnxscript')

class Model(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.atleast_3d(x0, x1)

CASES = {
    "smallest": (Model, lambda: (torch.tensor([0.0], dtype=torch.bfloat16), torch.tensor([0.0], dtype=torch.bfloat16))),
    "ordinary size": (Model, lambda: (torch.ones(4, 8, dtype=torch.bfloat16), torch.ones(8, dtype=torch.bfloat16))),
}
FAILURE = ("InvalidGraph", "of operator (SequenceConstruct)")

class Boundary(torch.nn.Module):
    """Takes and gives bfloat16 and float8 as float32, and complex numbers as pairs: numpy lacks them. It is exact."""

    def __init__(self, model, given):
        super().__init__()
        self.model, self.dtypes = model, [value.dtype for value in given]

    def forward(self, *given):
        results = self.model(*map(convert, given, self.dtypes))
        return tuple(map(plain, results if isinstance(results, tuple) else (results,)))

small = lambda dtype: dtype.is_floating_point and dtype.itemsize < 4 and dtype != torch.float16
plain = lambda x: torch.view_as_real(x.resolve_conj()) if x.is_complex() else x.float() if small(x.dtype) else x
convert = lambda x, dtype: torch.view_as_complex(x) if dtype.is_complex else x.to(dtype) if small(dtype) else x

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
        run(Boundary(Model(), fresh()).eval(), lambda: tuple(map(plain, fresh())))
        print(f"{name}: onnxruntime/cpu runs it")
    except Exception as problem:
        print(f"{name}: onnxruntime/cpu raised:", type(problem).__name__, str(problem)[-2000:])
        while problem and not (type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem)):
            problem = problem.__cause__ or problem.__context__
        if not problem:
            sys.exit(print("It is another failure than the one that this script shows.") or 2)
        fault = True
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
