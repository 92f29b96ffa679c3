"""tvm/cpu: `x * 0.5` of an integer tensor cuts the number to an integer: the result is 0, `x + 0.5` is x, 7 / 2.5 is 3

Condition: one operand is an integer tensor (int64, int32 and uint8 were run) and the other a Python float that is no
whole number, in `*`, `+`, `-`, `/`, `%`, `fmod`, `<` and `==`.

Right for: `x.float() * 0.5`; `x * y` where `y` is a float tensor, also of no dimension; `torch.where(c, x, 0.5)`.

`promote_binary_op_args` in `_binary_op` (tvm/relax/frontend/torch/base_fx_graph_translator.py) makes the number a
constant of the tensor's dtype (`relax.const(rhs, lhs.ty.dtype)`), so that 0.5 becomes 0. PyTorch converts the tensor
to the default float dtype. Two tensors of different dtypes are promoted there.

Seen with torch 2.13.0+cpu, apache-tvm 0.27.0.post1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import traceback
from importlib.metadata import version

os.environ.update({'TVM_NUM_THREADS': '1'})  # before PyTorch is imported

try:
    import torch
    import tvm
    from tvm.relax.frontend.torch import from_exported_program
    import numpy as np
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'apache-tvm')
PROPERTIES = {'kind': 'llvm'}


COMPARE = "equal"


class Model(torch.nn.Module):
    def forward(self, x):
        return x * 0.5


class Sum(torch.nn.Module):
    def forward(self, x):
        return x + 0.5


class Quotient(torch.nn.Module):
    def forward(self, x):
        return x / 2.5


class Less(torch.nn.Module):
    def forward(self, x):
        return x < 2.5


CASES = {
    "smallest": (Model, lambda: (torch.tensor([7]),)),
    "ordinary size": (Model, lambda: (torch.arange(64).reshape(4, 16),)),
    "x + 0.5": (Sum, lambda: (torch.arange(64, dtype=torch.int32).reshape(4, 16),)),
    "x / 2.5": (Quotient, lambda: (torch.arange(64).to(torch.uint8).reshape(4, 16),)),
    "x < 2.5": (Less, lambda: (torch.arange(64).reshape(4, 16),)),
}


def run(model, fresh):
    module = from_exported_program(torch.export.export(model, fresh()))
    program = tvm.compile(module, tvm.target.Target(PROPERTIES))
    machine = tvm.relax.VirtualMachine(program, tvm.cpu())
    found = machine["main"](*(tvm.runtime.tensor(a.numpy()) for a in fresh()))
    return [torch.as_tensor(np.array(value.numpy())) for value in found]


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
            print("  eager:", expected.dtype, list(expected.shape), " tvm/cpu@threads=1:", found.dtype, list(found.shape))
        elif found.numel():
            place = furthest(found, expected)
            values = " ".join(f"{side} {value[place].item():.{17 if value.itemsize > 4 else 9}g} " for side, value in (
                ("eager", expected), ("tvm/cpu@threads=1", found), ("float64", exact)))
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
