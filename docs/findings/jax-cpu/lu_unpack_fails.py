"""jax/cpu@mode=accuracy,threads=1: aten.lu_unpack.default of float32, int32: fails

Seen with torch 2.13.0+cpu, jax 0.10.2, torchax 0.0.13.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import traceback

os.environ.update({'JAX_PLATFORMS': 'cpu', 'NPROC': '1'})  # before PyTorch is imported

import jax
import numpy as np
import torch


class Model(torch.nn.Module):
    def forward(self, x0, x1):
        v2, v3, v4 = torch.ops.aten.lu_unpack.default(x0, x1)
        return (v2,)


def run(model, arguments):
    packet = type(torch.ops.aten.add)
    original = packet.__getattr__

    def overload(self, name):
        # torchax 0.0.13 names overloads for named tensors as keys of a table; PyTorch 2.13 has none.
        if "imname" in name or "names" in name:
            return object()
        return original(self, name)

    packet.__getattr__ = overload
    import torchax

    torchax.default_env()
    torchax.enable_accuracy_mode()
    packet.__getattr__ = original
    weights, function = torchax.extract_jax(model)
    found = jax.jit(function)(weights, jax.tree.map(torchax.default_env().t2j_copy, arguments))
    return [torch.as_tensor(np.array(array)) for array in jax.tree.leaves(found)]


x0 = torch.tensor([[0.0]], dtype=torch.float32)
x1 = torch.tensor([1], dtype=torch.int32)


def main():
    print("torch", torch.__version__, "jax", jax.__version__, platform.machine())
    expected = Model()(*[x.clone() for x in (x0, x1)])
    try:
        actual = run(Model().eval(), tuple([x.clone() for x in (x0, x1)]))
    except Exception as problem:
        print("jax/cpu@mode=accuracy,threads=1 fails:", type(problem).__name__, str(problem)[-3000:])
        print("FAULT")
        return 1
    print("jax/cpu@mode=accuracy,threads=1 gives", actual, "eager", expected)
    print("NO FAULT")
    return 0


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
