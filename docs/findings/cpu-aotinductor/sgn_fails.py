"""cpu/aotinductor: aten.sgn.default of complex64: fails

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
    def forward(self, x0):
        v1 = torch.sgn(x0)
        return (v1,)


def run(model, arguments):
    package = torch._inductor.aoti_compile_and_package(torch.export.export(model, arguments))
    return torch._inductor.aoti_load_package(package)(*arguments)


x0 = torch.tensor([complex(0.0, 0.0)], dtype=torch.complex64)


def main():
    print("torch", torch.__version__, platform.machine())
    expected = Model()(*[x.clone() for x in (x0,)])
    try:
        actual = run(Model().eval(), tuple([x.clone() for x in (x0,)]))
    except Exception as problem:
        print("cpu/aotinductor fails:", type(problem).__name__, str(problem)[-3000:])
        print("FAULT")
        return 1
    print("cpu/aotinductor gives", actual, "eager", expected)
    print("NO FAULT")
    return 0


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
