"""cpu/aotinductor: aten.nextafter.default of float16: gives a wrong result

Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import os
import platform
import sys
import traceback

os.environ.update({'TORCHINDUCTOR_COMPILE_THREADS': '1'})  # before PyTorch is imported

import torch


class Model(torch.nn.Module):
    def forward(self, x0, x1):
        v2 = torch.nextafter(x1, x0)
        return (v2,)


def run(model, arguments):
    package = torch._inductor.aoti_compile_and_package(torch.export.export(model, arguments))
    return torch._inductor.aoti_load_package(package)(*arguments)


def error(found, expected):
    """0 where shapes and elements are equal, else infinity: nothing here is rounded but by a cast. NaN equals NaN."""
    if found.shape != expected.shape:
        return float("inf")
    equal = (found == expected) | ((found != found) & (expected != expected))
    return 0.0 if equal.all() else float("inf")


x0 = torch.tensor([0.0], dtype=torch.float16)
x1 = torch.tensor([1.0], dtype=torch.float16)


def main():
    print("torch", torch.__version__, platform.machine())
    expected = Model()(*[x.clone() for x in (x0, x1)])
    try:
        actual = run(Model().eval(), tuple([x.clone() for x in (x0, x1)]))
    except Exception as problem:
        print("cpu/aotinductor fails:", type(problem).__name__, str(problem)[-3000:])
        print("It fails: another fault than the one that this script shows.")
        return 2
    found = False
    for number, (a, e) in enumerate(zip(actual, expected, strict=True)):
        print(f"output {number}:")
        print("  eager:", e.dtype, e)
        print("  cpu/aotinductor:", a.dtype, a)
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
