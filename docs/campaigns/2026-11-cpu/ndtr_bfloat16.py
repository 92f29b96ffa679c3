"""PyTorch, CPU: special_ndtr of bfloat16 is zero in the lower tail, where the right values are normal numbers."""

import math
import sys

import torch

x = torch.linspace(-8, -2, 25).to(torch.bfloat16)
got = torch.special.ndtr(x)
right = [0.5 * math.erfc(-float(v) / math.sqrt(2)) for v in x]
wrong = [(float(v), float(g), r) for v, g, r in zip(x, got, right, strict=True) if abs(float(g) - r) > 0.02 * r]
for value, given, exact in wrong:
    print(f"ndtr({value}) gave {given:.4g}; right is {exact:.4g}")
sys.exit(bool(wrong))
