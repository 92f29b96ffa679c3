"""cpu/aotinductor: `sgn` of complex numbers does not compile ahead of time

Condition: the dtype is complex.

Right for: real numbers; `torch.compile` of the same program.

Constant folding makes a complex constant of `full`, which has no C shim.

Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import traceback
from importlib.metadata import version

os.environ.update({'TORCHINDUCTOR_COMPILE_THREADS': '1'})  # before PyTorch is imported

try:
    import torch
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch',)


class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.sgn(x0)


CASES = {
    "smallest": (Model, lambda: (torch.tensor([1 + 1j]),)),
    "ordinary size": (Model, lambda: (torch.complex(torch.linspace(-1, 1, 32), torch.linspace(2, 0, 32)).reshape(4, 8),)),
}
FAILURE = ("InductorError", "AssertionError")


def run(model, fresh):
    package = torch._inductor.aoti_compile_and_package(torch.export.export(model, fresh()))
    return torch._inductor.aoti_load_package(package)(*fresh())


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
            print(f"{name}: cpu/aotinductor runs it")
            continue
        print(f"{name}: cpu/aotinductor raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
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
