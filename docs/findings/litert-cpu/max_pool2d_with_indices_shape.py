"""litert/cpu: `max_pool2d` with a one-element `kernel_size` or `padding` pools or pads one dimension

Condition: `kernel_size` or `padding` is a list or tuple of one element, which PyTorch takes for both dimensions (4-d
input); a one-element `stride` fails with a message.

Right for: a number; a list of two.

`max_pool` in litert_torch/backend/lowerings/_jax_lowerings/lowerings.py takes the length of `kernel_size` for the
number of dimensions to pool, and pairs `padding` with the dimensions one by one. With one element it pools the last
dimension and takes the height for a batch dimension, or pads the width alone. PyTorch repeats the element.

Seen with torch 2.13.0+cpu, litert-torch 0.10.0, ai-edge-litert 2.3.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import traceback
from importlib.metadata import version

os.environ.update({'JAX_PLATFORMS': 'cpu'})  # before PyTorch is imported

try:
    import torch
    import litert_torch
    import numpy as np
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'litert-torch', 'ai-edge-litert')


COMPARE = "equal"


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.max_pool2d(x, [2])


class Padded(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.max_pool2d(x, 2, padding=[1])


CASES = {
    "smallest": (Model, lambda: (torch.arange(4.0).reshape(1, 1, 2, 2),)),
    "ordinary size": (Model, lambda: (torch.rand(1, 8, 32, 32, generator=torch.Generator().manual_seed(1)),)),
    "padding": (Padded, lambda: (torch.rand(1, 8, 32, 32, generator=torch.Generator().manual_seed(1)),)),
}


def run(model, fresh):
    found = litert_torch.convert(model, fresh(), enable_x64=True)(*(a.numpy() for a in fresh()))
    return [torch.as_tensor(np.array(array)) for array in (found if isinstance(found, tuple) else (found,))]


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
            print("  eager:", expected.dtype, list(expected.shape), " litert/cpu@threads=1,x64=on:", found.dtype, list(found.shape))
        elif found.numel():
            place = furthest(found, expected)
            values = " ".join(f"{side} {value[place].item():.9g} " for side, value in (
                ("eager", expected), ("litert/cpu@threads=1,x64=on", found), ("float64", exact)))
            print(f"  at {list(place)}: {values}")
    return fault


def main():
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
