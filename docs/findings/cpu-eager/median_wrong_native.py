"""The median of an expanded row is not the row's only value. Exit status 1: the fault is there; 0: it is gone; 2: not checked."""
import sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
print("torch", version("torch"))

x = torch.tensor([[1.0], [2.0], [3.0]]).expand(3, 3)
found = torch.median(x, 1).values
print("expected", torch.median(x.contiguous(), 1).values)
print("actual, of the first row", found[:1])  # the other rows end with memory outside x
sys.exit(print("FAULT" if found[0] != 1.0 else "NO FAULT") or int(found[0] != 1.0))
