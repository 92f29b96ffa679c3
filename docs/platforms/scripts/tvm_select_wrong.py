"""TVM reads outside the tensor for a negative index: `x[:, -1]`.

Run with the interpreter of `mindgap env create tvm`. Seen with apache-tvm 0.27.0.post1 and PyTorch 2.13.0.
Exit status 1: the fault is there; 0: it is not.
"""

import sys

import torch
import tvm
from tvm.relax.frontend.torch import from_exported_program


class Model(torch.nn.Module):
    def forward(self, x):
        return x[:, -1]


x = torch.arange(1.0, 11.0).reshape(5, 2)
module = from_exported_program(torch.export.export(Model(), (x,)))
machine = tvm.relax.VirtualMachine(tvm.compile(module, tvm.target.Target({"kind": "llvm"})), tvm.cpu())
found = torch.as_tensor(machine["main"](tvm.runtime.tensor(x.numpy()))[0].numpy())
print("TVM gives", found, "right is", Model()(x))
wrong = not torch.equal(found, Model()(x))
print("FAULT" if wrong else "NO FAULT")
sys.exit(int(wrong))
