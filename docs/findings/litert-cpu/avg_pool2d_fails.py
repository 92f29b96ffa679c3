"""litert/cpu: `avg_pool2d`, `avg_pool3d` with a one-element `padding`, `kernel_size` or `stride` fail

Condition: `padding`, `kernel_size` or `stride` is a list or tuple of one element, of any value.

Right for: numbers; `padding=(1, 1)`, no `padding`; `conv2d(padding=[1])`.

`_aten_avg_pool` in litert_torch/backend/lowerings/_jax_lowerings/torchax_ops.py repeats a padding of one element only
if it is a list; `_lower_to_ir_text` in litert_torch/backend/jax_bridge/_wrap.py turns all lists into tuples first. It
never repeats `kernel_size` and `stride` of one element.

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


FAILURE = ("AssertionError", "must specify pads for same number of dims")


class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.avg_pool2d(x0, 2, padding=(1,))


class Three(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.avg_pool3d(x0, 2, padding=(1,))


CASES = {
    "smallest": (Model, lambda: (torch.tensor([[[[1.0]]]]),)),
    "ordinary size": (Model, lambda: (torch.linspace(-1, 1, 384).reshape(2, 3, 8, 8),)),
    "avg_pool3d": (Three, lambda: (torch.linspace(-1, 1, 384).reshape(2, 3, 4, 4, 4),)),
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
