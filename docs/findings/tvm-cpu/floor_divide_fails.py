"""tvm/cpu: `x // 2` fails unless x is int32, `x // 2.5` unless it is float32 (`div` with a rounding mode too)

Condition: the divisor is a Python number, in `//` and in `div(rounding_mode=...)`: an integer with a tensor that is
not int32, or a float with one that is not float32 (int64, int32, int16, float64, float32 and float16 were run).

Right for: int32 by an integer and float32 by a float; a tensor of the same dtype as divisor; `x % 3` of int64.

PyTorch's export writes `//` as `div` with a rounding mode. `_div` in
tvm/relax/frontend/torch/base_fx_graph_translator.py makes a constant of the number without a dtype (`relax.const(2)`
is int32, `relax.const(2.5)` is float32), and Relax refuses operands of two dtypes.

Seen with torch 2.13.0+cpu, apache-tvm 0.27.0.post1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import traceback
from importlib.metadata import version

os.environ.update({'TVM_NUM_THREADS': '1'})  # before PyTorch is imported

try:
    import torch
    import tvm
    from tvm.relax.frontend.torch import from_exported_program
    import numpy as np
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'apache-tvm')
PROPERTIES = {'kind': 'llvm'}


FAILURE = ("TypeError", "Binary operators must have the same datatype for both operands")


class Model(torch.nn.Module):
    def forward(self, x):
        return x // 2


class Trunc(torch.nn.Module):
    def forward(self, x):
        return torch.div(x, 2, rounding_mode="trunc")


class Fraction(torch.nn.Module):
    def forward(self, x):
        return x // 2.5


CASES = {
    "smallest": (Model, lambda: (torch.tensor([7]),)),
    "ordinary size": (Model, lambda: (torch.arange(-32, 32).reshape(4, 16),)),
    "div(rounding_mode)": (Trunc, lambda: (torch.arange(-32, 32).reshape(4, 16),)),
    "x // 2.5": (Fraction, lambda: (torch.linspace(-4, 4, 64, dtype=torch.float64).reshape(4, 16),)),
}


def run(model, fresh):
    module = from_exported_program(torch.export.export(model, fresh()))
    program = tvm.compile(module, tvm.target.Target(PROPERTIES))
    machine = tvm.relax.VirtualMachine(program, tvm.cpu())
    found = machine["main"](*(tvm.runtime.tensor(a.numpy()) for a in fresh()))
    return [torch.as_tensor(np.array(value.numpy())) for value in found]


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
            print(f"{name}: tvm/cpu@threads=1 runs it")
            continue
        print(f"{name}: tvm/cpu@threads=1 raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
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
