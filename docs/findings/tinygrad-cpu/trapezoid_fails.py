"""tinygrad/cpu: a bfloat16 constant in a model fails

Condition: the model has a scalar constant of bfloat16, such as that of `x * 2`.

Right for: bfloat16 operators without a constant; the same in float32.

OnnxRunner reads a constant of bfloat16 as a number, for which Python's buffers have no format (tinygrad/tensor.py,
"no fmt dtype").

Seen with torch 2.13.0+cpu, tinygrad 0.14.0, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import tempfile
import traceback
from importlib.metadata import version

os.environ.update({'DEV': 'CPU', 'PARALLEL': '0', 'NUM_CPU_THREADS': '1'})  # before PyTorch is imported

try:
    import torch
    from tinygrad import Tensor
    from tinygrad.nn.onnx import OnnxRunner
    import numpy as np
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'tinygrad', 'onnx', 'onnxscript')


FAILURE = ("AssertionError", "no fmt dtype for dtypes.bfloat16")


class Model(torch.nn.Module):
    def forward(self, x0):
        return x0.to(torch.bfloat16) * 2


class Trapezoid(torch.nn.Module):
    def forward(self, x0):
        return torch.trapezoid(x0.to(torch.bfloat16))


CASES = {
    "smallest": (Model, lambda: (torch.zeros(1),)),
    "ordinary size": (Trapezoid, lambda: (torch.linspace(-1, 1, 16),)),
}


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
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, fresh(), dynamo=True, verbose=False).save(f"{folder}/model.onnx")
        runner = OnnxRunner(f"{folder}/model.onnx")
        found = runner({n: Tensor(a.numpy()) for n, a in zip(runner.graph_inputs, fresh(), strict=True)})
        return [torch.as_tensor(np.array(value.numpy())) for value in found.values()]


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
    print(versions())
    found = False
    for name, (Model, fresh) in CASES.items():
        expected = Model().eval()(*fresh())
        expected = expected if isinstance(expected, tuple) else (expected,)
        print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in expected))
        problem, printed = raised(lambda: declared(run(*bounded(Model, fresh)), None))
        if problem is None:
            print(f"{name}: tinygrad/cpu@threads=1 runs it")
            continue
        print(f"{name}: tinygrad/cpu@threads=1 raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
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
