"""cpu/eager: `select_scatter`, `slice_scatter` and `diagonal_scatter` of an overlapping view write to other elements too

Condition: elements of the view share memory, with strides that are not 0, as those of `unfold` with a step below the
size.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch

class Select(torch.nn.Module):
    def forward(self, x):
        return torch.select_scatter(x, torch.full_like(x[0], -1), 0, 1)

class Columns(torch.nn.Module):
    def forward(self, x):
        return torch.slice_scatter(x, torch.full_like(x[:, :1], -1), 1, 0, 1)

class Diagonal(torch.nn.Module):
    def forward(self, x):
        return torch.diagonal_scatter(x, torch.full_like(x.diagonal(), -1))

CASES = {
    "smallest": (Select, lambda: (torch.arange(3.0).unfold(0, 2, 1),)),
    "ordinary size": (Select, lambda: (torch.arange(64.0).unfold(0, 16, 8),)),
    "slice_scatter": (Columns, lambda: (torch.arange(64.0).unfold(0, 16, 8),)),
    "diagonal_scatter": (Diagonal, lambda: (torch.arange(64.0).unfold(0, 16, 8),)),
}

print(f"torch {version('torch')}", *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (Model, fresh) in CASES.items():
    (x,) = fresh()
    actual, right = Model()(x), Model()(x.clone())  # the clone has the same elements, each by itself
    different = actual != right
    at = tuple(int(each) for each in different.nonzero()[0]) if different.any() else (0, 0)
    fault |= (wrong := bool(different.any()))
    print(f"{name}: {int(different.sum())} of {right.numel()} elements are wrong{': wrong' * wrong}")
    print(f"  eager: {right[at]} at {[*at]} of a clone  overlapping: {actual[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
