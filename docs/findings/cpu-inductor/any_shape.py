"""cpu/inductor: `any` of uint8 returns bool, not uint8

Condition: the dtype is uint8.

Right for: bool and other dtypes, of which eager PyTorch returns bool too; `all` of uint8.

Eager PyTorch returns uint8 for uint8, which its documentation states. Inductor's lowering makes bool of every dtype.

Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import traceback
from importlib.metadata import version

os.environ.update({'TORCHINDUCTOR_COMPILE_THREADS': '1'})  # before PyTorch is imported

try:
    import torch
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch',)


class Any(torch.nn.Module):
    def forward(self, x0):
        return torch.any(x0, -1)


class Empty(torch.nn.Module):
    """Counts the rows of a uint8 mask that hold something."""

    def forward(self, mask):
        return mask.any(-1).sum(), ~mask.any(-1)


CASES = {
    "smallest": (Any, lambda: (torch.tensor([0, 2], dtype=torch.uint8),)),
    "mask": (Empty, lambda: ((torch.arange(32) % 5 == 0).to(torch.uint8).reshape(4, 8),)),
}
COMPARE = "equal"
EXACT = False


def run(model, fresh):
    compiled = torch.compile(model, fullgraph=True, dynamic=False)
    return compiled(*fresh())


def error(found, expected):
    """0 where shapes and elements are equal, else infinity: nothing here is rounded but by a cast. NaN equals NaN."""
    if found.shape != expected.shape:
        return float("inf")
    equal = (found == expected) | ((found != found) & (expected != expected))
    return 0.0 if equal.all() else float("inf")


def versions():
    """The versions of the packages, the processor and its instruction set."""
    found = [f"{name} {version(name)}" for name in PACKAGES]
    return ", ".join([*found, platform.machine(), torch.backends.cpu.get_cpu_capability()])


def as_tuple(results):
    return tuple(value.detach() for value in (results if isinstance(results, (tuple, list)) else (results,)))


def furthest(found, right):
    """The place of the element that is furthest off; NaN where the other is none comes first."""
    apart = (found.to(torch.complex128) - right.to(torch.complex128)).abs().nan_to_num(nan=0.0)
    apart[(found != found) != (right != right)] = float("inf")
    return tuple(int(i) for i in torch.unravel_index(apart.flatten().argmax(), apart.shape))


def shows(name, Model, fresh):
    """Whether one case shows the fault."""
    expecteds = as_tuple(Model().eval()(*fresh()))
    exacts = expecteds  # eager PyTorch is the measure
    founds = as_tuple(run(Model().eval(), fresh))
    fault = False
    for number, (found, expected, exact) in enumerate(zip(founds, expecteds, exacts, strict=True)):
        eps = torch.finfo(expected.dtype).eps if expected.is_floating_point() or expected.is_complex() else 0.0
        off, limit = error(found, expected), 16 * eps
        wrong = found.dtype != expected.dtype or off > limit
        fault |= wrong
        kind = f"{str(expected.dtype).removeprefix('torch.')}{list(expected.shape)}"
        print(f"{name}, output {number}: {kind}, error {off:.3g}, limit {limit:.3g}{': wrong' if wrong else ''}")
        if found.dtype != expected.dtype or found.shape != expected.shape:
            print("  eager:", expected.dtype, list(expected.shape), " cpu/inductor:", found.dtype, list(found.shape))
        elif found.numel():
            place = furthest(found, expected)
            values = " ".join(f"{side} {value[place].item():.{17 if value.itemsize > 4 else 9}g} " for side, value in (
                ("eager", expected), ("cpu/inductor", found), ("float64", exact)))
            print(f"  at {list(place)}: {values}")
    return fault


def main():
    torch.set_printoptions(precision=17)
    print(versions())
    found = False
    for name, (Model, fresh) in CASES.items():
        try:
            found |= shows(name, Model, fresh)
        except Exception:
            traceback.print_exc()
            print(f"{name}: it fails, which is another fault than the one that this script shows.")
            return 2
    print("FAULT" if found else "NO FAULT")
    return int(found)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
