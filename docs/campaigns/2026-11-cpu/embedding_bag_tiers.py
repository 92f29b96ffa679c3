"""PyTorch, CPU: shapes of embedding_bag's results on each instruction set, with and without a padding index.

The campaign reported that they differ between instruction sets. They do not. The float64 kernel differs: it fills
offset2bag, which the float32 kernel leaves empty. Exits with 1 if the instruction sets differ.
"""

import os
import subprocess
import sys

PROGRAM = """
import torch
indices, offsets = torch.tensor([1, 2, 3, 4, 0, 2, 9, 7, 5]), torch.tensor([0, 3, 6])
for dtype in (torch.float32, torch.float64):
    for padding in (None, 2):
        bag = torch.ops.aten.embedding_bag.padding_idx
        results = bag(torch.ones(10, 4, dtype=dtype), indices, offsets, False, 0, False, None, False, padding)
        print(dtype, "padding", padding, [tuple(result.shape) for result in results])
"""
answers: dict[str, str] = {}
for tier in ("default", "avx2", "avx512"):
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": tier}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    answers[tier] = done.stdout
    print(f"{tier}:\n{done.stdout}", end="")
sys.exit(len(set(answers.values())) > 1)
