"""openvino/cpu: `gcd` of 2-d tensors converts and fails when it runs; of three dimensions or more it does not convert

Condition: the operands have two dimensions or more (int32, int64 and uint8 were run), also with a static shape if
there are two columns or more.

Right for: 0-d and 1-d operands; (1, 1) and (2, 1) with a static shape.

The translation of gcd is a Loop whose body ends with ReduceLogicalOr along axis 0 alone. Of a matrix that leaves one
condition for each column, where a Loop takes a single one; of three dimensions it leaves a matrix of conditions,
which the Loop's validation refuses. One column leaves one condition, and is right with a static shape; with the
dynamic shape that the front end makes it fails as well, since the plugin compares an unknown size with 1. The cases
have two columns or more, and so they fail with a static shape too.

Seen with torch 2.13.0+cpu, openvino 2026.4.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
import sys
import traceback
from importlib.metadata import version

try:
    import torch
    import openvino
    import numpy as np
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'openvino')
PROPERTIES = {'INFERENCE_PRECISION_HINT': 'f32'}


FAILURE = ("RuntimeError", "Check 'mem->getShape() == Shape(VectorDims{1})' failed")


class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.gcd(x, y)


CASES = {
    "smallest": (Model, lambda: (torch.tensor([[4, 9]]), torch.tensor([[6, 6]]))),
    "ordinary size": (Model, lambda: (torch.arange(1, 129).reshape(8, 16) * 6, torch.arange(1, 129).reshape(8, 16) * 4)),
}


def run(model, fresh):
    converted = openvino.convert_model(torch.export.export(model, fresh()))
    compiled = openvino.compile_model(converted, "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in fresh()]).values()]


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
            print(f"{name}: openvino/cpu@precision=f32 runs it")
            continue
        print(f"{name}: openvino/cpu@precision=f32 raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
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
