"""jax/cpu: `linalg.lu` fails in `jax.jit`

Condition: the function is traced by `jax.jit` (any matrix or batch).

Right for: torchax without `jax.jit`; `linalg.lu_factor`.

`_aten_linalg_lu` in torchax/ops/jaten.py computes the smaller of both sizes by `jnp.minimum(m, n)`, which `jax.jit`
traces, and slices by it. Sizes are plain numbers; `min` would do.

Seen with torch 2.13.0+cpu, jax 0.10.2, torchax 0.0.13.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import traceback
from importlib.metadata import version

os.environ.update({'JAX_PLATFORMS': 'cpu', 'NPROC': '1'})  # before PyTorch is imported

try:
    import torch
    import jax
    import numpy as np
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'jax', 'torchax')


FAILURE = ("IndexError", "Slice entries must be static integers")


class LU(torch.nn.Module):
    def forward(self, x):
        p, lower, upper = torch.linalg.lu(x)
        return p, lower, upper


CASES = {
    "smallest": (LU, lambda: (torch.tensor([[2.0]]),)),
    "ordinary size": (LU, lambda: (torch.randn(4, 6, generator=torch.Generator().manual_seed(0)),)),
    "batch": (LU, lambda: (torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(0)),)),
}


class Names:
    """torchax 0.0.13 keys a table by overloads for named tensors, which PyTorch 2.13 lacks: any object will do."""

    packet = type(torch.ops.aten.add)
    original = packet.__getattr__

    def __getattr__(self, name):
        return object() if "imname" in name or "names" in name else Names.original(self, name)


Names.packet.__getattr__ = Names.__getattr__
try:
    import torchax

    torchax.default_env()
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)
Names.packet.__getattr__ = Names.original


def run(model, fresh):
    torchax.default_env()
    torchax.enable_accuracy_mode()
    weights, function = torchax.extract_jax(model)
    found = jax.jit(function)(weights, jax.tree.map(torchax.default_env().t2j_copy, fresh()))
    return [torch.as_tensor(np.array(array)) for array in jax.tree.leaves(found)]


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
            print(f"{name}: jax/cpu@mode=accuracy,threads=1 runs it")
            continue
        print(f"{name}: jax/cpu@mode=accuracy,threads=1 raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
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
