"""cpu/jit: a Python bool as a number (`x == True`, `torch.full(n, True)`) cannot be traced

Condition: `torch.jit.trace`, and a Python bool where the operator's schema has a Scalar: `full`, `full_like`,
`fill_`, `masked_fill`, `where`, `==`, `&`, `|`, `+`, `*`, `clamp`.

Right for: 1, 0 and 1.0 in place of the bool; `torch.jit.script`.

The tracer writes a Python bool as a constant of TorchScript's type bool. TorchScript's schema matching converts int
and float to Scalar, and no bool, so the alias analysis finds no operator and asserts.

Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
import sys
import traceback
from importlib.metadata import version

try:
    import torch
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch',)


class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.full((2,), True) & (x0 > 0)


class Equal(torch.nn.Module):
    def forward(self, x0):
        return (x0 > 0) == False  # noqa: E712


class Mask(torch.nn.Module):
    def forward(self, x0):
        return (x0 > 0).masked_fill(x0 > 1, False)


CASES = {
    "smallest": (Model, lambda: (torch.zeros(2),)),
    "ordinary size": (Mask, lambda: (torch.linspace(-2, 2, 64).reshape(4, 16),)),
    "==": (Equal, lambda: (torch.linspace(-2, 2, 64).reshape(4, 16),)),
}
FAILURE = ("RuntimeError", "but it isn't a special case.  Argument types: ")


def run(model, fresh):
    traced = torch.jit.trace(model, fresh(), check_trace=False)
    for _ in range(3):  # TorchScript optimises after the first runs
        traced(*fresh())
    return traced(*fresh())


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
            print(f"{name}: cpu/jit runs it")
            continue
        print(f"{name}: cpu/jit raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
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
