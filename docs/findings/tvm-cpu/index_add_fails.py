"""tvm/cpu: `x[i] = y`, `index_put((i,), y)` and `index_add(0, i, y)` of whole rows fail

Condition: the first dimensions are indexed and a later one is taken whole (2-d and 3-d were run).

Right for: `x.index_put((i, j), v)` of a matrix; `index_add(1, i, y)` of a matrix; 1-d tensors.

`index_put` is translated to `relax.op.index_put`, which wants one index tensor for each dimension; the importer does
not add those of the dimensions that are taken whole. PyTorch writes `index_add` as an `index_put`.

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


FAILURE = ("ValueError", "IndexPut requires the number of index tensors (1) to match the data tensor dimensions (2)")


class Model(torch.nn.Module):
    def forward(self, x, i, y):
        return torch.index_add(x, 0, i, y)


class Put(torch.nn.Module):
    def forward(self, x, i, y):
        return x.index_put((i,), y)


class Assign(torch.nn.Module):
    def forward(self, x, i, y):
        x = x.clone()
        x[i] = y
        return x


CASES = {
    "smallest": (Model, lambda: (torch.zeros(2, 2), torch.tensor([1]), torch.ones(1, 2))),
    "ordinary size": (Model, lambda: (torch.zeros(16, 8), torch.arange(4), torch.ones(4, 8))),
    "index_put": (Put, lambda: (torch.zeros(16, 8), torch.arange(4), torch.ones(4, 8))),
    "x[i] = y": (Assign, lambda: (torch.zeros(16, 8), torch.arange(4), torch.ones(4, 8))),
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
