"""litert/cpu: `split` and `chunk` into a single part fail to convert

Condition: the split has one part: the size is at least that of the dimension, or `chunk(x, 1)`.

Right for: `split` and `chunk` into two and more parts; `tensor_split(x, 1)`; `unbind` of one row.

The lowering of aten.split_with_sizes (`split_with_sizes` in
litert_torch/backend/lowerings/_jax_lowerings/torchax_ops.py) returns a list of one array; `sanitize_result_elty` in
litert_torch/backend/jax_bridge/_wrap.py takes the list for an array, since there is one result.

Seen with torch 2.13.0+cpu, litert-torch 0.10.0, ai-edge-litert 2.3.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import tempfile
import traceback
from importlib.metadata import version

os.environ.update({'JAX_PLATFORMS': 'cpu'})  # before PyTorch is imported

try:
    import torch
    import litert_torch
    import numpy as np
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'litert-torch', 'ai-edge-litert')


FAILURE = ("AttributeError", "'list' object has no attribute 'dtype'")


class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.split(x0, 4)[0] + 1


class Chunk(torch.nn.Module):
    def forward(self, x0):
        return torch.chunk(x0, 1, 1)[0] + 1


CASES = {
    "smallest": (Model, lambda: (torch.tensor([1.0]),)),
    "ordinary size": (Model, lambda: (torch.linspace(-1, 1, 64).reshape(4, 16),)),
    "chunk": (Chunk, lambda: (torch.linspace(-1, 1, 64).reshape(4, 16),)),
}


def run(model, fresh):
    found = litert_torch.convert(model, fresh(), enable_x64=True)(*(a.numpy() for a in fresh()))
    return [torch.as_tensor(np.array(array)) for array in (found if isinstance(found, tuple) else (found,))]


def diagnosed(call):
    """What `call` raises, None where it raises nothing, and what is printed on standard error meanwhile."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as printed:
        kept, problem = os.dup(2), None
        os.dup2(printed.fileno(), 2)
        try:
            call()
        except Exception as found:
            problem = found
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
        printed.seek(0)
        return problem, printed.read().decode(errors="replace")


def versions():
    """The versions of the packages, the processor and its instruction set."""
    found = [f"{name} {version(name)}" for name in PACKAGES]
    return ", ".join([*found, platform.machine(), torch.backends.cpu.get_cpu_capability()])


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
        problem, printed = diagnosed(lambda: run(Model().eval(), fresh))
        if problem is None:
            print(f"{name}: litert/cpu@threads=1,x64=on runs it")
            continue
        print(f"{name}: litert/cpu@threads=1,x64=on raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
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
