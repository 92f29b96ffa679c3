"""onnxruntime/cpu: `conv2d` of bfloat16 is exported as an invalid ONNX model

Condition: the operands are bfloat16 and the opset is the exporter's default (20).

Right for: `conv2d` of float16; with `opset_version=22` the exported model is valid (ONNX Runtime then has no bfloat16
Conv on the CPU).

The exporter writes bfloat16 Conv, ConvTranspose, MaxPool, AveragePool, Softplus and Elu at opset 20, whose
definitions do not take bfloat16 (those of opset 22 do), without a message.

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


class Model(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.nn.functional.conv2d(x0, x1)


class Transposed(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.nn.functional.conv_transpose2d(x0, x1)


CASES = {
    "smallest": (Model, lambda: (torch.ones(1, 1, 1, 1, dtype=torch.bfloat16), torch.ones(1, 1, 1, 1, dtype=torch.bfloat16))),
    "ordinary size": (Model, lambda: (torch.ones(2, 3, 8, 8, dtype=torch.bfloat16), torch.ones(4, 3, 3, 3, dtype=torch.bfloat16))),
    "conv_transpose2d": (Transposed, lambda: (torch.ones(2, 3, 8, 8, dtype=torch.bfloat16), torch.ones(3, 4, 3, 3, dtype=torch.bfloat16))),
}
FAILURE = ("InvalidGraph", "Type 'tensor(bfloat16)' of input parameter")


class Boundary(torch.nn.Module):
    """A model whose operands and results have dtypes that numpy holds; the conversions are exact."""

    def __init__(self, model, dtypes):
        super().__init__()
        self.model, self.dtypes = model, dtypes

    def forward(self, *given):
        given = [convert(value, dtype) for value, dtype in zip(given, self.dtypes, strict=True)]
        results = self.model(*given)
        return tuple(plain(value) for value in (results if isinstance(results, tuple) else (results,)))


def plain(value):
    if value.is_complex():
        return torch.view_as_real(value.resolve_conj())
    return value.float() if value.is_floating_point() and value.itemsize < 4 and value.dtype != torch.float16 else value


def convert(value, dtype):
    """The inverse of `plain`; a value of any other dtype stays as it is."""
    if dtype.is_complex:
        return torch.view_as_complex(value)
    return value.to(dtype) if dtype.is_floating_point and dtype.itemsize < 4 and dtype != torch.float16 else value


def bounded(Model, fresh):
    return Boundary(Model(), [value.dtype for value in fresh()]).eval(), lambda: tuple(map(plain, fresh()))


def declared(results, expected):
    pairs = zip(results, expected, strict=True) if expected else ()
    return [convert(value, right.dtype) for value, right in pairs]


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
        problem, printed = raised(lambda: declared(run(*bounded(Model, fresh)), None))
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
