"""onnx/reference: `GatherElements` with a negative axis refuses indices that are smaller than the data

Condition: the axis is negative and the indices have another size than the data there (`torch.gather(x, -1, i)`,
`quantile`, whose export has axis -1); or, with any axis, another size in another dimension.

Right for: axis 1 of two with fewer indices along it; indices of the size of the data.

The evaluator compares the dimensions before and behind the axis by `shape[axis + 1:]`, which is all dimensions for
axis -1. It also wants them equal, where ONNX lets the indices be smaller.

Seen with torch 2.13.0+cpu, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
import sys
import traceback
from importlib.metadata import version

try:
    import torch
    import onnx.reference
    import numpy as np
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

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
        problem, printed = raised(lambda: run(Model().eval(), fresh))
        if problem is None:
            print(f"{name}: onnx/reference runs it")
            continue
        print(f"{name}: onnx/reference raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
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
