"""Three programs that TVM computes wrongly, with TVM alone.

Run with the interpreter of `mindgap env create tvm`. Seen with apache-tvm 0.27.0.post1 and PyTorch 2.13.0. Exit status
1: at least one is still there; 0: none is.
"""

import sys

import numpy as np
import torch
import tvm
from tvm.relax.frontend.torch import from_exported_program


def run(function, *arguments):
    class Model(torch.nn.Module):
        def forward(self, *given):
            return function(*given)

    module = from_exported_program(torch.export.export(Model(), arguments))
    machine = tvm.relax.VirtualMachine(tvm.compile(module, tvm.target.Target("llvm")), tvm.cpu())
    return [value.numpy() for value in machine["main"](*(tvm.runtime.tensor(each.numpy()) for each in arguments))]


def statistics(x, mean, variance):
    mean, variance = mean.clone(), variance.clone()
    torch.nn.functional.batch_norm(x, mean, variance, training=True)
    return mean, variance


def indices(x):
    return (torch.nn.functional.max_pool2d(x, 2, return_indices=True)[1],)


CASES = {
    "a product of float64 matrices is rounded to float32": (
        lambda x, y: (torch.mm(x, y),), torch.tensor([[1.0, -1.0]], dtype=torch.float64),
        torch.tensor([[1 + 2.0**-40], [1.0]], dtype=torch.float64),
    ),
    "running statistics of batch_norm": (statistics, torch.arange(8.0).reshape(4, 2), torch.zeros(2), torch.ones(2)),
    "indices of max_pool2d": (indices, torch.arange(16.0).reshape(1, 1, 4, 4)),
}  # fmt: skip


def main():
    wrong = 0
    for name, (function, *arguments) in CASES.items():
        expected = [value.numpy() for value in function(*arguments)]
        try:
            actual = run(function, *arguments)
            pairs = zip(actual, expected, strict=True)
            fault = any(a.dtype != e.dtype or not np.allclose(a, e, atol=0) for a, e in pairs)
            print(name, "TVM:", actual, "PyTorch:", expected)
        except Exception as error:
            fault = True
            print(name, "TVM:", type(error).__name__, str(error)[:300])
        wrong += fault
    print(f"{wrong} of {len(CASES)} are there")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
