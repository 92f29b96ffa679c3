"""The sum of no losses is not 0. Exit status 1: the fault is there; 0: it is gone; 2: not checked."""
import sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
print("torch", version("torch"))

found = []
for number in (1.0, -2.0, 3.0):
    before = [torch.full((16,), number) for _ in range(1000)]  # what the memory holds that is used next
    del before
    empty, no_class = torch.empty(0, 10), torch.empty(0, dtype=torch.long)
    found.append(torch.nn.functional.multi_margin_loss(empty, no_class, reduction="sum").item())
print("expected: 0.0, three times")
print("actual:", "other numbers, which differ from run to run" if any(found) else "0.0, three times")
sys.exit(print("FAULT" if any(found) else "NO FAULT") or int(any(found)))
