"""onnxruntime/cpu: `clamp(x, 0.0, 1)`, with one bound a float and the other an int, fails at export

Condition: one bound of `clamp` is a Python float and the other a Python int, of a float32 tensor or of a tensor of
integers.

Right for: two floats or two ints; a float16, bfloat16 or float64 tensor; `hardtanh(x, 0.0, 1)`; bounds that are
tensors.

The pass that makes type promotion explicit (torch/onnx/_internal/fx/passes/type_promotion.py) writes the int as a
node scalar_tensor of the promoted dtype. `aten.clamp.default` takes two numbers and `aten.clamp.Tensor` two tensors,
so no overload takes a number and a tensor: "Cannot find a compatible OpOverload".

Seen with torch 2.13.0+cpu, onnxruntime 1.31.1, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
import sys
import traceback
from importlib.metadata import version

try:
    import torch
    import onnxruntime
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'onnxruntime', 'onnx', 'onnxscript')


FAILURE = ("RuntimeError", "Cannot find a compatible OpOverload for aten.clamp")


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.clamp(x, 0.0, 1)


class IntegerBelow(torch.nn.Module):
    def forward(self, x):
        return x.clamp(0, 1.0)


class OfIntegers(torch.nn.Module):
    def forward(self, x):
        return torch.clamp(x, 0.0, 255)


CASES = {
    "smallest": (Model, lambda: (torch.tensor([-1.0, 0.5, 2.0]),)),
    "ordinary size": (IntegerBelow, lambda: (torch.linspace(-2, 2, 64).reshape(4, 16),)),
    "a tensor of integers": (OfIntegers, lambda: (torch.arange(-300, 300),)),
}


def run(model, fresh):
    program = torch.onnx.export(model, fresh(), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), fresh(), strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]


def versions():
    """The versions of the packages, the processor and its instruction set."""
    found = [f"{name} {version(name)}" for name in PACKAGES]
    return ", ".join([*found, platform.machine(), torch.backends.cpu.get_cpu_capability()])


def raised(call):
    """What `call` raises, and nothing that it prints; None where it raises nothing."""
    try:
        call()
    except Exception as problem:
        return problem, ""
    return None, ""



def is_the_failure(problem, printed):
    """Whether an exception, or one that it follows from, is the failure that this script shows."""
    while problem is not None:
        if FAILURE is not None and type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem) + printed:
            return True
        problem = problem.__cause__ or problem.__context__
    return False


def main():
    torch.set_printoptions(precision=17)
    print(versions())
    found = False
    for name, (Model, fresh) in CASES.items():
        expected = Model().eval()(*fresh())
        expected = expected if isinstance(expected, tuple) else (expected,)
        print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in expected))
        problem, printed = raised(lambda: run(Model().eval(), fresh))
        if problem is None:
            print(f"{name}: onnxruntime/cpu runs it")
            continue
        print(f"{name}: onnxruntime/cpu raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
        if not is_the_failure(problem, printed):
            print("It is another failure than the one that this script shows.")
            return 2
        found = True
    print("FAULT" if found else "NO FAULT")
    return int(found)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
