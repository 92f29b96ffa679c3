"""cpu/jit: aten.fill_.Scalar of float32: fails

Seen with torch 2.13.0+cpu.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
import sys
import traceback

import torch


class Model(torch.nn.Module):
    def forward(self, x0):
        v1 = torch.ops.aten.fill_.Scalar(x0, False)
        return (v1,)


def run(model, arguments):
    def fresh():
        return tuple(a.clone() for a in arguments)

    traced = torch.jit.trace(model, fresh(), check_trace=False)
    for _ in range(3):  # TorchScript optimises after the first runs
        traced(*fresh())
    return traced(*fresh())


x0 = torch.tensor([0.0], dtype=torch.float32)


def main():
    print("torch", torch.__version__, platform.machine())
    expected = Model()(*[x.clone() for x in (x0,)])
    try:
        actual = run(Model().eval(), tuple([x.clone() for x in (x0,)]))
    except Exception as problem:
        print("cpu/jit fails:", type(problem).__name__, str(problem)[-3000:])
        print("FAULT")
        return 1
    print("cpu/jit gives", actual, "eager", expected)
    print("NO FAULT")
    return 0


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
