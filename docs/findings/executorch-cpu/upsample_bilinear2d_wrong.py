"""executorch/cpu: `interpolate(mode="bilinear", scale_factor=1.7)` scales by the ratio of sizes with XNNPACK

Condition: XNNPACK's partitioner, `mode="bilinear"`, `scale_factor` is given without `recompute_scale_factor`,
`align_corners=False`, and size times scale is no whole number (7 x 7 by 1.7 and by 0.6).

Right for: a whole product (8 x 8 by 1.5); a `size`; `align_corners=True`; `nearest`; the same model without a
delegate.

ExecuTorch writes the node with the new height and width alone (`XNNStaticResizeBilinear2D` in
backends/xnnpack/operators/op_static_resize_bilinear_2d.py). XNNPACK takes the quotient of the sizes as the scale.
PyTorch takes the given scale.

Seen with torch 2.13.0+cpu, executorch 1.5.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
import sys
import traceback
from importlib.metadata import version

try:
    import torch
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower
    from executorch.runtime import Runtime
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch', 'executorch')


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.interpolate(x, scale_factor=1.5, mode="bilinear")


class Images(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.interpolate(x, scale_factor=1.7, mode="bilinear")


CASES = {
    "smallest": (Model, lambda: (torch.tensor([[[[0.0, 1.0, 3.0]] * 3]]),)),
    "ordinary size": (Images, lambda: (torch.rand(1, 3, 33, 33, generator=torch.Generator().manual_seed(1)),)),
}


def run(model, fresh):
    program = torch.export.export(model, fresh())
    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch()
    loaded = Runtime.get().load_program(bytes(lowered.buffer))
    found = loaded.load_method("forward").execute(list(fresh()))  # operands changed in place come first
    return [value.clone() for value in found[-len(program.graph_signature.user_outputs) :]]


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
            print("  eager:", expected.dtype, list(expected.shape), " executorch/cpu@threads=1:", found.dtype, list(found.shape))
        elif found.numel():
            place = furthest(found, exact)
            values = " ".join(f"{side} {value[place].item():.9g} " for side, value in (
                ("eager", expected), ("executorch/cpu@threads=1", found), ("float64", exact)))
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
