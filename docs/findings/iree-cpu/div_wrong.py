"""iree/cpu: uint8 is widened as a signed number: 200 / 255 is -0.22, sums and `x == 200` are wrong

Condition: the input is uint8 and holds 128 or more, in `x / 255`, `x / y` of two tensors, `x * 0.5`, `x - 127.5`, `x
+ 0.5`, `x * y` where `y` is int64 or float32, `x.sum()`, `x.prod()`, `x == 200`, `x != 200`, `x < 130`.

Right for: `x.float()` and `x.to(torch.int64)`; `x + y` where `y` is a tensor of float32 or int64; `x > y` of two
uint8; `cumsum`; `argmax`; numbers up to 127.

torch-mlir's lowerings of these operators call `convertScalarToDtype` without the source's dtype of PyTorch, so that
it takes `arith.sitofp` and `arith.extsi` for ui8. The conversion of `to` passes the dtype, and gets the unsigned
ones.

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


class Model(torch.nn.Module):
    def forward(self, x):
        return x / 255


class Sum(torch.nn.Module):
    def forward(self, x):
        return x.sum()


class Equal(torch.nn.Module):
    def forward(self, x):
        return x == 200


CASES = {
    "smallest": (Model, lambda: (torch.tensor([200], dtype=torch.uint8),)),
    "ordinary size": (Model, lambda: (torch.arange(256).to(torch.uint8).reshape(1, 16, 16),)),
    "sum": (Sum, lambda: (torch.arange(256).to(torch.uint8).reshape(16, 16),)),
    "x == 200": (Equal, lambda: (torch.arange(256).to(torch.uint8).reshape(16, 16),)),
}


def run(model, fresh):
    output = iree.turbine.aot.export(model, args=fresh())
    output.session.set_flags(*(f"--{name}={value}" for name, value in PROPERTIES.items()))
    program = output.compile(save_to=None, target_backends=None)
    config = iree.runtime.Config("local-task")
    module = iree.runtime.VmModule.copy_buffer(config.vm_instance, program.map_memory())
    found = iree.runtime.load_vm_module(module, config).main(*(a.numpy() for a in fresh()))
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
            print("  eager:", expected.dtype, list(expected.shape), " iree/cpu@float64=kept,threads=1:", found.dtype, list(found.shape))
        elif found.numel():
            place = furthest(found, exact)
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
