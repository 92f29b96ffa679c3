"""torch_xla runs the program that it compiled for another `divisor_override` of `avg_pool2d`.

Run with the interpreter of `mindgap env create xla`. Seen with torch_xla 2.9.0 and PyTorch 2.9.0.
Exit status 1: the fault is there; 0: it is not.
"""

import sys

import torch
import torch_xla

x = torch.ones(1, 1, 3, 3)
wrong = []
for divisor in (2, 4):
    pooled = torch.nn.functional.avg_pool2d(x.to(torch_xla.device()), 2, 1, divisor_override=divisor).cpu()
    right = torch.nn.functional.avg_pool2d(x, 2, 1, divisor_override=divisor)
    print(f"divisor_override={divisor}: torch_xla gives {pooled[0, 0, 0, 0]}, right is {right[0, 0, 0, 0]}")
    wrong.append(not torch.equal(pooled, right))
print("FAULT" if any(wrong) else "NO FAULT")
sys.exit(int(any(wrong)))
