"""iree/cpu: the bytes of a float64 operand are read as float32: `x.float()` of [1, 2] is [0, 1.875]

Condition: an operand is float64, as numpy's are, and `--iree-input-demote-f64-to-f32` has its default.

Right for: `--iree-input-demote-f64-to-f32=false`; float32 operands.

The default converts float64 to float32 in the program (`DemoteF64ToF32Pass`), also at its inputs: the import of an
operand still expects float64 and takes its bytes for a tensor of float32. Results that are float64 get a buffer of
half the size, which fails ("buffer view byte length exceeds backing buffer").

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
PROPERTIES = {'iree-hal-target-backends': 'llvm-cpu'}


class Model(torch.nn.Module):
    def forward(self, x0):
        return x0.float()


class Image(torch.nn.Module):
    def forward(self, x0):
        return (x0.to(torch.float32) - 0.5) * 4


CASES = {
    "smallest": (Model, lambda: (torch.tensor([1.0, 2.0], dtype=torch.float64),)),
    "ordinary size": (Image, lambda: (torch.linspace(0, 1, 3 * 16 * 16, dtype=torch.float64).reshape(1, 3, 16, 16),)),
}


def run(model, fresh):
    output = iree.turbine.aot.export(model, args=fresh())
    output.session.set_flags(*(f"--{name}={value}" for name, value in PROPERTIES.items()))
    program = output.compile(save_to=None, target_backends=None)
    config = iree.runtime.Config("local-task")
    module = iree.runtime.VmModule.copy_buffer(config.vm_instance, program.map_memory())
    loaded = iree.runtime.load_vm_module(module, config)
    found = loaded.main(*(a.numpy() for a in fresh()))
    return [torch.as_tensor(np.array(array)) for array in (found if isinstance(found, tuple) else (found,))]


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
            print("  eager:", expected.dtype, list(expected.shape), " iree/cpu@threads=1:", found.dtype, list(found.shape))
        elif found.numel():
            place = furthest(found, exact)
            values = " ".join(f"{side} {value[place].item():.{17 if value.itemsize > 4 else 9}g} " for side, value in (
                ("eager", expected), ("iree/cpu@threads=1", found), ("float64", exact)))
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
