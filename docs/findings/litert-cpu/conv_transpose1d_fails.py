"""litert/cpu@threads=1,x64=on: aten.conv_transpose1d.default of float32: fails

Seen with torch 2.13.0+cpu, litert_torch 0.10.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import traceback

os.environ.update({'JAX_PLATFORMS': 'cpu'})  # before PyTorch is imported

import numpy as np
import torch


class Model(torch.nn.Module):
    def forward(self, x0, x1):
        v2 = torch.conv_transpose1d(x0, x1, None, [2], [1])
        return (v2,)


def run(model, arguments):
    import litert_torch

    found = litert_torch.convert(model, arguments, enable_x64=True)(*(a.numpy() for a in arguments))
    return [torch.as_tensor(np.array(array)) for array in (found if isinstance(found, tuple) else (found,))]


x0 = torch.tensor([[[0.0]]], dtype=torch.float32)
x1 = torch.full((1, 2, 3), 0.0, dtype=torch.float32)


def main():
    print("torch", torch.__version__, platform.machine())
    expected = Model()(*[x.clone() for x in (x0, x1)])
    try:
        actual = run(Model().eval(), tuple([x.clone() for x in (x0, x1)]))
    except Exception as problem:
        print("litert/cpu@threads=1,x64=on fails:", type(problem).__name__, str(problem)[-3000:])
        print("FAULT")
        return 1
    print("litert/cpu@threads=1,x64=on gives", actual, "eager", expected)
    print("NO FAULT")
    return 0


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
