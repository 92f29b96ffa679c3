"""cpu/eager: `multi_margin_loss` and `multilabel_margin_loss` of an empty batch return memory that was not written

Condition: the batch has no elements and `reduction` is "mean" or "sum".
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import math, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
import torch.nn.functional as F

def multi_margin(reduction):
    return F.multi_margin_loss(torch.empty(0, 10), torch.empty(0, dtype=torch.long), reduction=reduction)

def multilabel_margin(reduction):
    return F.multilabel_margin_loss(torch.empty(0, 10), torch.empty(0, 10, dtype=torch.long), reduction=reduction)

def cross_entropy(reduction):
    return F.cross_entropy(torch.empty(0, 10), torch.empty(0, dtype=torch.long), reduction=reduction)

CASES = {
    "smallest": (multi_margin, "sum"),
    "ordinary size": (multi_margin, "mean"),
    "multilabel_margin_loss": (multilabel_margin, "sum"),
    "multilabel_margin_loss, mean": (multilabel_margin, "mean"),
}

print("torch", version("torch"), *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (function, reduction) in CASES.items():
    right = 0.0 if reduction == "sum" else math.nan  # as all other losses, and the sum and mean of no elements
    found = list[float]()
    for number in (1.0, -2.0, 3.0):
        before = [torch.full((16,), number) for _ in range(1000)]  # what the memory holds that is used next
        del before
        found.append(function(reduction).item())
    same = all(each == right or (math.isnan(each) and math.isnan(right)) for each in found)
    fault |= not same
    print(f"{name}: three calls, {'as' if same else 'not as'} the other losses{': wrong' * (not same)}")
    print(f"  eager: {cross_entropy(reduction).item()} by cross_entropy  margin: {found}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
