"""jax/cpu: `div` with a rounding mode, and `fmod`, of int32, int16, int8 or uint8 give int64

Condition: both operands are integers narrower than int64, with 64-bit types; without them, where the result is int32,
int8, int16 and uint8 only.

Right for: int64; floats; `x // y` and `x % y` of the same operands.

`_aten_div` in torchax/ops/jaten.py casts the quotient of integers to int64 in any case, and `_aten_fmod` computes
with it. PyTorch keeps the operands' dtype.

Seen with torch 2.13.0+cpu, jax 0.10.2, torchax 0.0.13.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import traceback
from importlib.metadata import version

os.environ.update({'JAX_PLATFORMS': 'cpu', 'NPROC': '1'})  # before PyTorch is imported

try:
    import torch
    import jax
    import numpy as np
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'jax', 'torchax')


COMPARE = "equal"


class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.div(x, y, rounding_mode="trunc")


class Floor(torch.nn.Module):
    def forward(self, x, y):
        return torch.div(x, y, rounding_mode="floor")


class Rest(torch.nn.Module):
    def forward(self, x, y):
        return torch.fmod(x, y)


CASES = {
    "smallest": (Model, lambda: (torch.tensor([7], dtype=torch.int32), torch.tensor([2], dtype=torch.int32))),
    "ordinary size": (Model, lambda: (torch.arange(64).reshape(4, 16).to(torch.int32), torch.full((4, 16), 3, dtype=torch.int32))),
    "floor": (Floor, lambda: (torch.arange(64).reshape(4, 16).to(torch.int32), torch.full((4, 16), 3, dtype=torch.int32))),
    "fmod": (Rest, lambda: (torch.arange(64).reshape(4, 16).to(torch.int32), torch.full((4, 16), 3, dtype=torch.int32))),
}


class Names:
    """torchax 0.0.13 keys a table by overloads for named tensors, which PyTorch 2.13 lacks: any object will do."""

    packet = type(torch.ops.aten.add)
    original = packet.__getattr__

    def __getattr__(self, name):
        return object() if "imname" in name or "names" in name else Names.original(self, name)


Names.packet.__getattr__ = Names.__getattr__
try:
    import torchax

    torchax.default_env()
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)
Names.packet.__getattr__ = Names.original


def run(model, fresh):
    torchax.default_env()
    torchax.enable_accuracy_mode()
    weights, function = torchax.extract_jax(model)
    found = jax.jit(function)(weights, jax.tree.map(torchax.default_env().t2j_copy, fresh()))
    return [torch.as_tensor(np.array(array)) for array in jax.tree.leaves(found)]


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
            print("  eager:", expected.dtype, list(expected.shape), " jax/cpu@mode=accuracy,threads=1:", found.dtype, list(found.shape))
        elif found.numel():
            place = furthest(found, expected)
            values = " ".join(f"{side} {value[place].item():.{17 if value.itemsize > 4 else 9}g} " for side, value in (
                ("eager", expected), ("jax/cpu@mode=accuracy,threads=1", found), ("float64", exact)))
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
