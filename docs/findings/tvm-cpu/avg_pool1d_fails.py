"""tvm/cpu@threads=1: aten.avg_pool1d.default of float32: fails

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
    def forward(self, x0):
        v1 = torch.avg_pool1d(x0, [1])
        return (v1,)


def run(model, arguments):
    import tvm
    from tvm.relax.frontend.torch import from_exported_program

    module = from_exported_program(torch.export.export(model, arguments))
    program = tvm.compile(module, tvm.target.Target(PROPERTIES))
    machine = tvm.relax.VirtualMachine(program, tvm.cpu())
    found = machine["main"](*(tvm.runtime.tensor(a.numpy()) for a in arguments))
    return [torch.as_tensor(np.array(value.numpy())) for value in found]


x0 = torch.tensor([[0.0]], dtype=torch.float32)


def main():
    print("torch", torch.__version__, platform.machine())
    expected = Model()(*[x.clone() for x in (x0,)])
    try:
        actual = run(Model().eval(), tuple([x.clone() for x in (x0,)]))
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
