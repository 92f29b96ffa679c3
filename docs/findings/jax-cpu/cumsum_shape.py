"""jax/cpu: `cumsum` and `cumprod` of int32, int8 or uint8 keep the dtype: int32 for int64, -56 for 200

Condition: the input is int8, int16 or uint8, or, with 64-bit types only, int32 (without them PyTorch's int64 is int32
everywhere), and `dtype` is not given.

Right for: int64; floats; `sum` of int8 and int16.

`_aten_cumsum` and `_aten_cumprod` in torchax/ops/jaten.py call jnp.cumsum and jnp.cumprod with the dtype that is
given, or none; these keep an integer dtype. PyTorch computes in int64.

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
    def forward(self, x):
        return torch.cumsum(x, 0)


class Product(torch.nn.Module):
    def forward(self, x):
        return torch.cumprod(x, 0)


CASES = {
    "smallest": (Model, lambda: (torch.tensor([100, 100], dtype=torch.int8),)),
    "int32": (Model, lambda: (torch.ones(32, 4, dtype=torch.int32),)),
    "ordinary size": (Model, lambda: (torch.arange(64, dtype=torch.uint8).reshape(16, 4) * 4,)),
    "cumprod": (Product, lambda: (torch.full((8, 4), 3, dtype=torch.uint8),)),
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
