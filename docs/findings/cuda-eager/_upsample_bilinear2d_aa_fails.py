"""cuda/eager: `interpolate(antialias=True)` of a batch of 0 fails with "CUDA error: invalid argument"

Condition: a batch without elements, `mode` of "bilinear" or "bicubic" and `antialias=True`.

Right for: a batch of 1; a batch of 0 with `antialias=False` in the modes "nearest", "bilinear" and "bicubic"; the
CPU.

`upsample_gen2d_aa_out_cuda_template` (aten/src/ATen/native/cuda/UpSampleBilinear2d.cu) launches a grid whose third
size is batch times channels, which is 0, and CUDA takes no such grid. The templates without `antialias` leave before
that where the result has no elements.

Seen with torch 2.11.0+cu130 on an NVIDIA H200.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
import sys
import traceback
from importlib.metadata import version

try:
    import torch
except ImportError as missing:
    print("It cannot be checked:", missing)
    sys.exit(2)

PACKAGES = ('torch',)


FAILURE = ("AcceleratorError", "CUDA error: invalid argument")


class Model(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.interpolate(x0, (3, 3), mode="bilinear", antialias=True)


class Bicubic(torch.nn.Module):
    def forward(self, x0):
        return torch.nn.functional.interpolate(x0, scale_factor=0.5, mode="bicubic", antialias=True)


CASES = {
    "smallest": (Model, lambda: (torch.zeros(0, 1, 4, 4),)),
    "ordinary size": (Model, lambda: (torch.zeros(0, 3, 10, 20),)),
    "bicubic": (Bicubic, lambda: (torch.zeros(0, 3, 64, 64),)),
}


def run(model, fresh):
    device = "cuda"
    found = model.to(device)(*(a.to(device) for a in fresh()))
    return [value.cpu() for value in (found if isinstance(found, (tuple, list)) else (found,))]


def versions():
    """The versions of the packages, the processor and its instruction set, and the device."""
    found = [f"{name} {version(name)}" for name in PACKAGES]
    return ", ".join([*found, platform.machine(), torch.backends.cpu.get_cpu_capability(), torch.cuda.get_device_name()])


def raised(call):
    """What `call` raises, and nothing that it prints; None where it raises nothing."""
    try:
        call()
    except Exception as problem:
        return problem, ""
    return None, ""



def is_the_failure(problem, printed):
    """Whether an exception, or one that it follows from, is the failure that this script shows."""
    while problem is not None:
        if FAILURE is not None and type(problem).__name__ == FAILURE[0] and FAILURE[1] in str(problem) + printed:
            return True
        problem = problem.__cause__ or problem.__context__
    return False


def main():
    torch.set_printoptions(precision=17)
    print(versions())
    found = False
    for name, (Model, fresh) in CASES.items():
        expected = Model().eval()(*fresh())
        expected = expected if isinstance(expected, tuple) else (expected,)
        print(f"{name}: eager gives", *(f"{value.dtype} {list(value.shape)}" for value in expected))
        problem, printed = raised(lambda: run(Model().eval(), fresh))
        if problem is None:
            print(f"{name}: cuda/eager runs it")
            continue
        print(f"{name}: cuda/eager raised:", type(problem).__name__, str(problem)[-2000:], printed[-2000:])
        if not is_the_failure(problem, printed):
            print("It is another failure than the one that this script shows.")
            return 2
        found = True
    print("FAULT" if found else "NO FAULT")
    return int(found)


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
