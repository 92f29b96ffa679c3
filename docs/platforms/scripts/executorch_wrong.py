"""ExecuTorch 1.5.1 returns wrong indices from `nonzero`.

PyTorch declares the result column by column (strides 1, n), and the program keeps that layout. The kernel writes the
indices row by row. Status 1 while they are wrong, 0 when they are right. Run it with the interpreter of the
environment `executorch`. It ran with torch 2.13.0 and executorch 1.5.1.
"""

import sys

import torch
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nonzero(x)


x = torch.tensor([[-2.0, -1.0], [0.0, 1.0]])
program = to_edge_transform_and_lower(torch.export.export(Model(), (x,))).to_executorch()
loaded = Runtime.get().load_program(bytes(program.buffer))
[found] = loaded.load_method("forward").execute([x])
print("ExecuTorch:", found.tolist())  # [[0, 1], [0, 1], [0, 1]]
print("PyTorch:   ", torch.nonzero(x).tolist())  # [[0, 0], [0, 1], [1, 1]]
sys.exit(not torch.equal(found, torch.nonzero(x)))
