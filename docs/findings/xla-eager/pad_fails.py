"""xla/eager@threads=1: aten.pad.default of bfloat16: fails

Seen with torch 2.9.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import traceback

os.environ.update({'OMP_NUM_THREADS': '1', 'MKL_NUM_THREADS': '1', 'OMP_DYNAMIC': 'FALSE', 'MKL_DYNAMIC': 'FALSE', 'NPROC': '1'})  # before PyTorch is imported

import torch
import torch_xla


class Model(torch.nn.Module):
    def forward(self, x0):
        v1 = torch.nn.functional.pad(x0, [0, 0, -2, 0], 'reflect')
        return (v1,)


def run(model, arguments):
    found = model(*(a.to("xla") for a in arguments))
    return [value.cpu() for value in found]


x0 = torch.full((1, 2, 1), 0.0, dtype=torch.bfloat16)


def main():
    print("torch", torch.__version__, "torch_xla", torch_xla.__version__, platform.machine())
    expected = Model()(*[x.clone() for x in (x0,)])
    try:
        actual = run(Model().eval(), tuple([x.clone() for x in (x0,)]))
    except Exception as problem:
        print("xla/eager@threads=1 fails:", type(problem).__name__, str(problem)[-3000:])
        print("FAULT")
        return 1
    print("xla/eager@threads=1 gives", actual, "eager", expected)
    print("NO FAULT")
    return 0


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
