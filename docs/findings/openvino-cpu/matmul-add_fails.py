"""openvino/cpu: a product of integer matrices plus, minus or times a constant vector does not compile; nor `linear(x, w) + c`

Condition: the number of columns of the product is dynamic, as the front end makes each dimension of an exported
program, the second factor is no constant, and the vector is a constant of more than one element; integers, or
float32 with `linear`.

Right for: a static number of columns; a constant second factor; a constant of one element; a vector that is an
argument; `a @ b + c` of float32 matrices.

The plugin fuses the vector into the product and compares its length with the number of columns, which is not known
then and counts as 0 (`data size: 4 OC: 0`).

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
PROPERTIES = {}


FAILURE = ("RuntimeError", "dnnl_postops_composer.cpp")


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("vector", torch.arange(4, dtype=torch.int32))

    def forward(self, a, b):
        return torch.matmul(a, b) + self.vector


class Scaled(Model):
    def forward(self, a, b):
        return torch.matmul(a, b) * self.vector


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("vector", torch.tensor([0.5, 1.0, 1.5, 2.0]))

    def forward(self, x, weight):
        return self.vector + torch.nn.functional.linear(x, weight)


def integers():
    return torch.arange(16, dtype=torch.int32).reshape(4, 4)


CASES = {
    "smallest": (Model, lambda: (torch.tensor([[1]], dtype=torch.int32), torch.tensor([[1]], dtype=torch.int32))),
    "ordinary size": (Model, lambda: (integers(), integers())),
    "times a vector": (Scaled, lambda: (integers(), integers())),
    "linear of float32": (Linear, lambda: (torch.ones(2, 4, 4), torch.ones(4, 4))),
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
            print(f"{name}: openvino/cpu runs it")
            continue
        print(f"{name}: openvino/cpu raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
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
