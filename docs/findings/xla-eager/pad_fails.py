"""xla/eager: `pad(mode="reflect")` with a negative amount fails

Condition: `mode` is reflect and an amount is negative, which crops in PyTorch.

Right for: reflect without negative amounts; constant and circular with them.

`BuildReflectionPad2d` in torch_xla/csrc/data_ops.cpp checks that each amount is 0 or more. PyTorch's own samples of
the operator have negative amounts.

Seen with torch 2.9.0, torch_xla 2.9.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import traceback
from importlib.metadata import version

os.environ.update({'OMP_NUM_THREADS': '1', 'MKL_NUM_THREADS': '1', 'OMP_DYNAMIC': 'FALSE', 'MKL_DYNAMIC': 'FALSE', 'NPROC': '1'})  # before PyTorch is imported

try:
    import torch
    import torch_xla
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'torch_xla')


FAILURE = ("RuntimeError", "_padding >= 0 && ")


class Line(torch.nn.Module):
    def forward(self, x):
        return (torch.nn.functional.pad(x, (-1, 0), mode="reflect"),)


class Image(torch.nn.Module):
    def forward(self, x):
        return (torch.nn.functional.pad(x, (2, -2, 1, 1), mode="reflect"),)


CASES = {
    "smallest": (Line, lambda: (torch.ones(1, 1, 2),)),
    "ordinary size": (Image, lambda: (torch.ones(2, 3, 8, 8),)),
}


def run(model, fresh):
    found = model(*(a.to("xla") for a in fresh()))
    return [value.cpu() for value in found]


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
            print(f"{name}: xla/eager@threads=1 runs it")
            continue
        print(f"{name}: xla/eager@threads=1 raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
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
