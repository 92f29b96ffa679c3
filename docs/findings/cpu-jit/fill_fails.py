"""cpu/jit: `torch.fill(x, v)` cannot be traced by `torch.jit.trace`: internal assertion

Condition: every call of the out-of-place `torch.fill`, with a bool, an integer, a float or a tensor as value.

Right for: `x.fill_(1)`; `torch.full_like(x, 1)`; `torch.jit.script` of `torch.fill(x, True)` and `torch.fill(x,
1.0)`.

The tracer renames `fill` to `full_like` and writes the node with two of its seven inputs. No schema of `full_like`
takes that, so the alias analysis asserts; its message asks to report a bug.

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
        return torch.fill(x0, 1.0)


class Bool(torch.nn.Module):
    def forward(self, x0):
        return torch.fill(x0, True)


CASES = {
    "smallest": (Model, lambda: (torch.tensor([0.0]),)),
    "ordinary size": (Model, lambda: (torch.zeros(4, 8),)),
    "bool": (Bool, lambda: (torch.zeros(4, 8),)),
}
FAILURE = ("RuntimeError", "have an op for aten::full_like but it isn't a special case")


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
