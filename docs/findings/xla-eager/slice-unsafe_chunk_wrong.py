"""xla/eager@threads=1: aten.slice.Tensor+aten.unsafe_chunk.default of float32: gives a wrong result

Seen with torch 2.9.0.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import traceback

os.environ.update({'OMP_NUM_THREADS': '1', 'MKL_NUM_THREADS': '1', 'OMP_DYNAMIC': 'FALSE', 'MKL_DYNAMIC': 'FALSE', 'NPROC': '1'})  # before PyTorch is imported

import torch
import torch_xla


class Model(torch.nn.Module):
    def forward(self, x0):
        v1 = torch.ops.aten.slice.Tensor(x0, 2, 1)
        v2, v3, v4, v5, v6 = torch.ops.aten.unsafe_chunk.default(v1, 5, 1)
        return (v2,)


def run(model, arguments):
    found = model(*(a.to("xla") for a in arguments))
    return [value.cpu() for value in found]


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


x0 = torch.tensor(
    [[[0.0, 1.0],
      [0.0, 0.0],
      [0.0, 0.0],
      [0.0, 0.0],
      [0.0, 0.0]]],
    dtype=torch.float32,
)


def main():
    print("torch", torch.__version__, "torch_xla", torch_xla.__version__, platform.machine())
    expected = Model()(*[x.clone() for x in (x0,)])
    try:
        actual = run(Model().eval(), tuple([x.clone() for x in (x0,)]))
    except Exception as problem:
        print("xla/eager@threads=1 fails:", type(problem).__name__, str(problem)[-3000:])
        print("It fails: another fault than the one that this script shows.")
        return 2
    widened = [x.to(torch.promote_types(x.dtype, torch.float64)) if x.is_floating_point() or x.is_complex() else x for x in [x.clone() for x in (x0,)]]
    exact = Model()(*widened)  # in float64
    found = False
    for number, (a, e, x) in enumerate(zip(actual, expected, exact, strict=True)):
        print(f"output {number}:")
        print("  eager:", e.dtype, e)
        print("  xla/eager@threads=1:", a.dtype, a)
        print("  float64:", x)
        eps = torch.finfo(e.dtype).eps if e.is_floating_point() or e.is_complex() else 0.0
        found |= a.dtype != e.dtype or error(a, x) > 16 * max(error(e, x), eps)
    print("FAULT" if found else "NO FAULT")
    return int(found)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
