"""onnxruntime/cpu: `x ** 2` and `x @ y` of uint8, int8 and int16 are exported as invalid models (`amax` of int16, `neg` and `relu` of uint8)

Condition: `**` and `@` of uint8, int8 and int16; `amax`, `amin` of int16; `neg`, `relu` of uint8; `einsum` of
bfloat16.

Right for: int32 and int64; `x * x`; `amax` of uint8 and int8; `neg` of int8 and int16, `sign` of uint8.

onnxscript writes Pow, MatMul and ReduceMax in the dtype of the input. ONNX defines Pow and MatMul for 32 and 64 bits,
ReduceMax for 8, 32 and 64 bits, Neg and Relu for signed numbers, Einsum for all but bfloat16. Nothing is said at
export.

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


FAILURE = ("InvalidGraph", "This is an invalid model. Type Error: Type 'tensor(")


class Model(torch.nn.Module):
    def forward(self, x):
        return x**2


class Product(torch.nn.Module):
    def forward(self, x):
        return x @ x


class Largest(torch.nn.Module):
    def forward(self, x):
        return x.amax(1)


class Negative(torch.nn.Module):
    def forward(self, x):
        return -x


CASES = {
    "smallest": (Model, lambda: (torch.tensor([3], dtype=torch.uint8),)),
    "ordinary size": (Model, lambda: (torch.arange(64, dtype=torch.int16).reshape(4, 16),)),
    "-x of uint8": (Negative, lambda: (torch.arange(8).to(torch.uint8),)),
    "int16 @ int16": (Product, lambda: (torch.arange(64, dtype=torch.int16).reshape(8, 8),)),
    "amax of int16": (Largest, lambda: (torch.arange(64, dtype=torch.int16).reshape(4, 16),)),
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
