"""`select_scatter` of windows that overlap. Exit status 1: the fault is there; 0: it is gone; 2: not checked."""
import sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
print("torch", version("torch"))

windows = torch.arange(3.0).unfold(0, 2, 1)
right = torch.select_scatter(windows.clone(), torch.full((2,), -1.0), 0, 1)
found = torch.select_scatter(windows, torch.full((2,), -1.0), 0, 1)
print("expected", right.tolist())
print("actual", found.tolist())
sys.exit(print("NO FAULT" if found.equal(right) else "FAULT") or int(not found.equal(right)))
