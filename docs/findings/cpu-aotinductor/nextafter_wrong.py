"""cpu/aotinductor: `nextafter` of float16 and bfloat16 returns its first argument

Condition: the dtype is float16 or bfloat16.

Right for: float32.

The generated code widens both operands to float32, takes the step there, and rounding to the narrow dtype takes it
back. `torch.compile` does the same.

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


class Model(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.nextafter(x0, x1)


CASES = {
    "smallest": (Model, lambda: (torch.tensor([1.0], dtype=torch.float16), torch.tensor([0.0], dtype=torch.float16),)),
    "ordinary size": (Model, lambda: (torch.linspace(1, 2, 32).half().reshape(4, 8), torch.zeros(4, 8).half(),)),
    "bfloat16": (Model, lambda: (torch.linspace(1, 2, 8).bfloat16(), torch.zeros(8).bfloat16(),)),
}
COMPARE = "equal"
EXACT = False


def run(model, fresh):
    package = torch._inductor.aoti_compile_and_package(torch.export.export(model, fresh()))
    return torch._inductor.aoti_load_package(package)(*fresh())


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
            print("  eager:", expected.dtype, list(expected.shape), " cpu/aotinductor:", found.dtype, list(found.shape))
        elif found.numel():
            place = furthest(found, expected)
            values = " ".join(f"{side} {value[place].item():.9g} " for side, value in (
                ("eager", expected), ("cpu/aotinductor", found), ("float64", exact)))
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
