"""jax/cpu: `grid_sample(padding_mode="reflection")` takes the mirrored pixel for coordinates from 3 to 5 and -7 to -5 (`flips & 1` is a logical and)

Condition: a coordinate x of the grid from 3 to 5 or -7 to -5, and from 7 to 9, -11 to -9 and so on, each 4 further;
both values of `align_corners`, images and volumes. By the same translation `x & y` of integers in
`torch.inference_mode()` gives bool: True for 2 & 1.

Right for: coordinates between -5 and 3; `torch.bitwise_and`, and `x & y` outside `torch.inference_mode()`.

PyTorch's decomposition (`reflect_coordinates` in torch/_decomp/decompositions.py) asks `flips & 1 == 0`. It runs
below PyTorch's autograd, where `&` is `aten.__and__` itself, which torchax gives to `jnp.logical_and`
(`_aten_logical_and` in torchax/ops/jaten.py): 2 & 1 is True, not 0. In a user's program autograd turns `x & y` into
`aten.bitwise_and` first, which is right; inference mode has no autograd.

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


class Model(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.nn.functional.grid_sample(x0, x1, padding_mode="reflection", align_corners=False)


class Corners(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.nn.functional.grid_sample(x0, x1, padding_mode="reflection", align_corners=True)


class Volume(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.nn.functional.grid_sample(x0, x1, padding_mode="reflection", align_corners=False)


def image():
    return torch.arange(20.0).reshape(1, 1, 4, 5)


CASES = {
    "smallest": (Model, lambda: (torch.tensor([[[[0.0, 1.0]]]]), torch.tensor([[[[-5.0, 0.0]]]]))),
    "ordinary size": (Model, lambda: (image(), torch.linspace(-4.6, 4.6, 32).reshape(1, 4, 4, 2))),
    "align_corners": (Corners, lambda: (image(), torch.linspace(-4.6, 4.6, 32).reshape(1, 4, 4, 2))),
    "volume": (
        Volume,
        lambda: (torch.arange(40.0).reshape(1, 1, 2, 4, 5), torch.linspace(-4.6, 4.6, 48).reshape(1, 2, 4, 2, 3)),
    ),
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
    compiled, given = jax.jit(function), jax.tree.map(torchax.default_env().t2j_copy, fresh())
    found = compiled(weights, given)
    return [torch.as_tensor(np.array(array)) for array in jax.tree.leaves(found)]


def error(found, exact):
    """The largest difference, relative to the largest magnitude of `exact`.

    Infinity where shapes, NaN or infinities differ, and where results that are no floats differ at all.
    """
    if found.shape != exact.shape:
        return float("inf")
    if not (exact.is_floating_point() or exact.is_complex()):
        return 0.0 if torch.equal(found, exact) else float("inf")
    if exact.is_complex():
        found, exact = torch.view_as_real(found.resolve_conj()), torch.view_as_real(exact.resolve_conj())
    found, exact = found.double(), exact.double()
    finite = exact.isfinite()
    same = torch.equal(found.isnan(), exact.isnan()) and torch.equal(found.isfinite(), finite)
    if not same or not torch.equal(found[exact.isinf()], exact[exact.isinf()]):
        return float("inf")
    if not finite.any():
        return 0.0
    worst, size = (found - exact)[finite].abs().max(), exact[finite].abs().max()
    return float(worst / size) if size else float(worst)


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
    widened = [
        x.to(torch.promote_types(x.dtype, torch.float64)) if x.is_floating_point() or x.is_complex() else x
        for x in fresh()
    ]
    exacts = as_tuple(Model().double().eval()(*widened))  # in float64
    founds = as_tuple(run(Model().eval(), fresh))
    fault = False
    for number, (found, expected, exact) in enumerate(zip(founds, expecteds, exacts, strict=True)):
        eps = torch.finfo(expected.dtype).eps if expected.is_floating_point() or expected.is_complex() else 0.0
        off, limit = error(found, exact), 16 * max(error(expected, exact), eps)
        wrong = found.dtype != expected.dtype or off > limit
        fault |= wrong
        kind = f"{str(expected.dtype).removeprefix('torch.')}{list(expected.shape)}"
        print(f"{name}, output {number}: {kind}, error {off:.3g}, limit {limit:.3g}{': wrong' if wrong else ''}")
        if found.dtype != expected.dtype or found.shape != expected.shape:
            print("  eager:", expected.dtype, list(expected.shape), " jax/cpu@mode=accuracy,threads=1:", found.dtype, list(found.shape))
        elif found.numel():
            place = furthest(found, exact)
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
