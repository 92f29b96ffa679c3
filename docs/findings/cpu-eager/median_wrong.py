"""cpu/eager: `x.median(dim)` and `x.nanmedian(dim)` read memory outside `x` where `dim` is expanded

Condition: the size of `dim` is more than 1 and its stride is 0, as after `expand` or broadcasting.
Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked."""
import platform, sys
from importlib.metadata import version
sys.excepthook = lambda kind, problem, _: sys.exit(print(f"It cannot be checked: {problem!r}") or 2)
import torch

def median(x, dim):
    return torch.median(x, dim).values

def nanmedian(x, dim):
    return torch.nanmedian(x, dim).values

def column(rows, columns):
    torch.manual_seed(0)
    return torch.rand(rows, 1).expand(rows, columns)

CASES = {
    "smallest": (median, lambda: (torch.tensor([[1.0], [2.0], [3.0]]).expand(3, 3), 1)),
    "ordinary size": (median, lambda: (column(64, 50), 1)),
    "nanmedian": (nanmedian, lambda: (column(64, 50), 1)),
    "integers": (median, lambda: (torch.arange(1, 65)[:, None].expand(64, 50), 1)),
    "first dimension": (median, lambda: (column(64, 50).T, 0)),
}

print(f"torch {version('torch')}", *platform.uname()[::4], torch.backends.cpu.get_cpu_capability(), sep=", ")
fault = False
for name, (function, fresh) in CASES.items():
    x, dim = fresh()
    found, right = function(x, dim), x.double().select(dim, 0)  # all elements along `dim` are equal
    assert torch.equal(function(x.contiguous(), dim).double(), right)
    error = (found.double() - right).abs()
    at = int(error.argmax())
    fault |= (wrong := bool(error.max()))
    print(f"{name}: {int((error > 0).sum())} of {len(error)} elements are wrong, most by {error.max().item():.3g}{': wrong' * wrong}")
    print(f"  eager: {function(x.contiguous(), dim)[at]} at [{at}] of a contiguous copy  expanded: {found[at]}")
sys.exit(print("FAULT" if fault else "NO FAULT") or int(fault))
