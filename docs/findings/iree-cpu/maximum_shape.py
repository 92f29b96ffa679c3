"""iree/cpu: a uint8 result is returned as int8: -56 for 200

Condition: a uint8 output of the program that is computed (`maximum`, `amax`, `clamp`, `>>` were run).

Right for: int8, int32, int64, bool and float outputs; `sort(x).values` and an input that is returned as it is, whose
dtype is uint8; uint8 within the program (`maximum(x, y).float()`).

IREE's conversion of the program's functions makes the signless type i8 of ui8, and the runtime gives such a buffer to
numpy as int8. Its element types have an unsigned one of 8 bits (`IREE_HAL_ELEMENT_TYPE_UINT_8`), which is not used.

Seen with torch 2.13.0+cpu, iree-base-compiler 3.13.0, iree-base-runtime 3.13.0, iree-turbine 3.9.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import traceback
from importlib.metadata import version

os.environ.update({'IREE_PY_RUNTIME_FLAGS': '--task_topology_group_count=1'})  # before PyTorch is imported

try:
    import torch
    import iree.runtime
    import iree.turbine.aot
    import numpy as np
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'iree-base-compiler', 'iree-base-runtime', 'iree-turbine')
PROPERTIES = {'iree-hal-target-backends': 'llvm-cpu', 'iree-input-demote-f64-to-f32': 'false'}


COMPARE = "equal"


class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.maximum(x, y)


class Pool(torch.nn.Module):
    def forward(self, x):
        return x.reshape(8, 2, 8, 2).amax((1, 3))


CASES = {
    "smallest": (Model, lambda: (torch.tensor([200], dtype=torch.uint8), torch.tensor([7], dtype=torch.uint8))),
    "ordinary size": (Pool, lambda: (torch.arange(256).to(torch.uint8).reshape(16, 16),)),
}


def run(model, fresh):
    output = iree.turbine.aot.export(model, args=fresh())
    output.session.set_flags(*(f"--{name}={value}" for name, value in PROPERTIES.items()))
    program = output.compile(save_to=None, target_backends=None)
    config = iree.runtime.Config("local-task")
    module = iree.runtime.VmModule.copy_buffer(config.vm_instance, program.map_memory())
    found = iree.runtime.load_vm_module(module, config).main(*(a.numpy() for a in fresh()))
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
            print("  eager:", expected.dtype, list(expected.shape), " iree/cpu@float64=kept,threads=1:", found.dtype, list(found.shape))
        elif found.numel():
            place = furthest(found, expected)
            values = " ".join(f"{side} {value[place].item():.{17 if value.itemsize > 4 else 9}g} " for side, value in (
                ("eager", expected), ("iree/cpu@float64=kept,threads=1", found), ("float64", exact)))
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
