"""executorch/tosa: `x % y`, `floor_divide` and `div(rounding_mode=...)` of exact float32 multiples are off by one: 41 % 41 is 41

Condition: float32, `y` divides `x`, and the float32 reciprocal of `y` is too small: 12 of the numbers up to 120
divided by themselves (41, 47, 55, 61, 82, ...).

Right for: int32, which TOSA divides as integers; a `y` that is a power of two.

`DecomposeDivTensorModePass` in executorch/backends/arm/_passes rounds the quotient, and the quotient is the product
of `x` and the reciprocal of `y`: 41 * (1 / 41) is 0.99999994, and its floor is 0. `DecomposeRemainderPass` takes `x -
floor(x / y) * y`. No step corrects the quotient.

executorch/tosa was not run by hardware (simulated).

Seen with torch 2.13.0+cpu, executorch 1.5.1, tosa-tools 2026.8.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
import sys
import traceback
from importlib.metadata import version

try:
    import torch
    import tosa_reference_model
    from executorch.backends.arm.tosa import TosaSpecification
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner
    from executorch.exir import to_edge_transform_and_lower
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'executorch', 'tosa-tools')


class Model(torch.nn.Module):
    def forward(self, x0, x1):
        return x0 % x1


class FloorDivide(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.floor_divide(x0, x1)


class Truncated(torch.nn.Module):
    def forward(self, x0, x1):
        return torch.div(x0, x1, rounding_mode="trunc")


CASES = {
    "smallest": (Model, lambda: (torch.tensor([41.0]), torch.tensor([41.0]))),
    "ordinary size": (Model, lambda: (torch.arange(1.0, 129.0).reshape(8, 16), torch.arange(1.0, 129.0).reshape(8, 16))),
    "floor_divide": (FloorDivide, lambda: (torch.arange(1.0, 129.0) * 3, torch.arange(1.0, 129.0))),
    "div(rounding_mode='trunc')": (Truncated, lambda: (torch.arange(1.0, 129.0), torch.arange(1.0, 129.0))),
}


def run(model, fresh):
    spec = TosaCompileSpec(TosaSpecification.create_from_string("TOSA-1.0+FP"))
    program = torch.export.export(model, fresh())
    lowered = to_edge_transform_and_lower(program, partitioner=[TOSAPartitioner(spec)]).exported_program()
    (part,) = [each for _, each in lowered.graph_module.named_children()]
    found, status = tosa_reference_model.run(part.processed_bytes, [each.contiguous().numpy() for each in fresh()])
    assert status == tosa_reference_model.GraphStatus.TOSA_VALID, status
    return [torch.as_tensor(array) for array in found]


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
            print("  eager:", expected.dtype, list(expected.shape), " executorch/tosa:", found.dtype, list(found.shape))
        elif found.numel():
            place = furthest(found, exact)
            values = " ".join(f"{side} {value[place].item():.{17 if value.itemsize > 4 else 9}g} " for side, value in (
                ("eager", expected), ("executorch/tosa", found), ("float64", exact)))
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
