"""tvm/cpu@threads=1: aten.unsqueeze.default+aten.rnn_tanh_cell.default of bfloat16: fails

Seen with torch 2.13.0+cpu, apache-tvm 0.27.0.post1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import traceback

os.environ.update({'TVM_NUM_THREADS': '1'})  # before PyTorch is imported

import numpy as np
import torch

PROPERTIES = {'kind': 'llvm'}


class Model(torch.nn.Module):
    def forward(self, x0, x1, x2, x3, x4, x5):
        v6 = torch.unsqueeze(x0, 0)
        v7 = torch.unsqueeze(x1, 0)
        v8 = torch.rnn_tanh_cell(v6, v7, x2, x3, x4, x5)
        return (v8,)


class Boundary(torch.nn.Module):
    """The model with inputs and outputs of dtypes that numpy holds."""

    def forward(self, x0, x1, x2, x3, x4, x5):
        (y0,) = Model()(x0.to(torch.bfloat16), x1.to(torch.bfloat16), x2.to(torch.bfloat16), x3.to(torch.bfloat16), x4.to(torch.bfloat16), x5.to(torch.bfloat16))
        return (y0.to(torch.float32),)


def plain(inputs):
    (x0, x1, x2, x3, x4, x5) = inputs
    return (x0.to(torch.float32), x1.to(torch.float32), x2.to(torch.float32), x3.to(torch.float32), x4.to(torch.float32), x5.to(torch.float32))


def declared(outputs):
    (y0,) = outputs
    return (y0.to(torch.bfloat16),)


def run(model, arguments):
    import tvm
    from tvm.relax.frontend.torch import from_exported_program

    module = from_exported_program(torch.export.export(model, arguments))
    program = tvm.compile(module, tvm.target.Target(PROPERTIES))
    machine = tvm.relax.VirtualMachine(program, tvm.cpu())
    found = machine["main"](*(tvm.runtime.tensor(a.numpy()) for a in arguments))
    return [torch.as_tensor(np.array(value.numpy())) for value in found]


x0 = torch.tensor([0.0], dtype=torch.bfloat16)
x1 = torch.tensor([0.0], dtype=torch.bfloat16)
x2 = torch.tensor([[0.0]], dtype=torch.bfloat16)
x3 = torch.tensor([[0.0]], dtype=torch.bfloat16)
x4 = torch.tensor([0.0], dtype=torch.bfloat16)
x5 = torch.tensor([0.0], dtype=torch.bfloat16)


def main():
    print("torch", torch.__version__, platform.machine())
    expected = Model()(*[x.clone() for x in (x0, x1, x2, x3, x4, x5)])
    try:
        actual = declared(run(Boundary().eval(), plain(tuple([x.clone() for x in (x0, x1, x2, x3, x4, x5)]))))
    except Exception as problem:
        print("tvm/cpu@threads=1 fails:", type(problem).__name__, str(problem)[-3000:])
        print("FAULT")
        return 1
    print("tvm/cpu@threads=1 gives", actual, "eager", expected)
    print("NO FAULT")
    return 0


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
