"""openvino/cpu@precision=f32: aten._to_copy.default of float32: gives a wrong result

Seen with torch 2.13.0+cpu, openvino 2026.4.1.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
import sys
import traceback

import numpy as np
import openvino
import torch

PROPERTIES = {'INFERENCE_PRECISION_HINT': 'f32'}


class Model(torch.nn.Module):
    def forward(self, x0):
        v1 = torch.Tensor.to(x0, dtype=torch.bfloat16)
        return (v1,)


class Boundary(torch.nn.Module):
    """The model with inputs and outputs of dtypes that numpy holds."""

    def forward(self, x0):
        (y0,) = Model()(x0)
        return (y0.to(torch.float32),)


def plain(inputs):
    (x0,) = inputs
    return (x0,)


def declared(outputs):
    (y0,) = outputs
    return (y0.to(torch.bfloat16),)


def run(model, arguments):
    converted = openvino.convert_model(torch.export.export(model, arguments))
    compiled = openvino.compile_model(converted, "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in arguments]).values()]


def error(found, expected):
    """0 where shapes and elements are equal, else infinity: nothing here is rounded but by a cast. NaN equals NaN."""
    if found.shape != expected.shape:
        return float("inf")
    equal = (found == expected) | ((found != found) & (expected != expected))
    return 0.0 if equal.all() else float("inf")


x0 = torch.tensor([1.4754109], dtype=torch.float32)


def main():
    print("torch", torch.__version__, "openvino", openvino.__version__, platform.machine())
    expected = Model()(*[x.clone() for x in (x0,)])
    try:
        actual = declared(run(Boundary().eval(), plain(tuple([x.clone() for x in (x0,)]))))
    except Exception as problem:
        print("openvino/cpu@precision=f32 fails:", type(problem).__name__, str(problem)[-3000:])
        print("It fails: another fault than the one that this script shows.")
        return 2
    found = False
    for number, (a, e) in enumerate(zip(actual, expected, strict=True)):
        print(f"output {number}:")
        print("  eager:", e.dtype, e)
        print("  openvino/cpu@precision=f32:", a.dtype, a)
        eps = torch.finfo(e.dtype).eps if e.is_floating_point() or e.is_complex() else 0.0
        found |= a.dtype != e.dtype or error(a, e) > 16 * eps
    print("FAULT" if found else "NO FAULT")
    return int(found)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
