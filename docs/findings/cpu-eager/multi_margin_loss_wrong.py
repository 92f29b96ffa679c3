"""cpu/eager: `multi_margin_loss` and `multilabel_margin_loss` of an empty batch return memory that was not written

Condition: the batch has no elements and `reduction` is "mean" or "sum".
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import math, platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch
import torch.nn.functional as F

class MultiMargin(torch.nn.Module):
    def forward(self, scores, classes):
        return F.multi_margin_loss(scores, classes, reduction="sum")

class MultiMarginMean(torch.nn.Module):
    def forward(self, scores, classes):
        return F.multi_margin_loss(scores, classes)

class MultilabelMargin(torch.nn.Module):
    def forward(self, scores, classes):
        return F.multilabel_margin_loss(scores, classes, reduction="sum")

class MultilabelMarginMean(torch.nn.Module):
    def forward(self, scores, classes):
        return F.multilabel_margin_loss(scores, classes)

CASES = {
    "smallest": (MultiMargin, lambda: (torch.empty(0, 10), torch.empty(0, dtype=torch.long))),
    "ordinary size": (MultiMarginMean, lambda: (torch.empty(0, 10), torch.empty(0, dtype=torch.long))),
    "multilabel_margin_loss": (MultilabelMargin, lambda: (torch.empty(0, 10), torch.empty(0, 10, dtype=torch.long))),
    "multilabel, mean": (MultilabelMarginMean, lambda: (torch.empty(0, 10), torch.empty(0, 10, dtype=torch.long))),
}

print(f"torch {version('torch')}", *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    mean = "Mean" in Model.__name__
    right = F.cross_entropy(torch.empty(0, 10), torch.empty(0, dtype=torch.long), reduction="mean" if mean else "sum").item()
    actual = list[float]()
    for number in (1.0, -2.0, 3.0):
        before = [torch.full((16,), number) for _ in range(1000)]  # what the memory holds that is used next
        del before
        actual.append(Model()(*fresh()).item())
    same = all(each == right or (math.isnan(each) and math.isnan(right)) for each in actual)
    fault |= not same
    print(f"{name}: three calls, {'as' if same else 'not as'} the other losses{': wrong' * (not same)}")
    print(f"  eager: {right} by cross_entropy  margin: {actual}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
