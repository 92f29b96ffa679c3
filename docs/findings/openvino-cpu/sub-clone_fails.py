"""openvino/cpu@precision=f32: aten.sub.Tensor+aten.clone.default of float32: fails

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
    def forward(self, x0, x1):
        v2 = torch.sub(x0, x1)
        v3 = torch.clone(v2)
        return v2, v3


def run(model, arguments):
    converted = openvino.convert_model(torch.export.export(model, arguments))
    compiled = openvino.compile_model(converted, "CPU", PROPERTIES)
    return [torch.as_tensor(np.array(array)) for array in compiled([a.numpy() for a in arguments]).values()]


x0 = torch.tensor([0.0], dtype=torch.float32)
x1 = torch.tensor([0.0], dtype=torch.float32)


def main():
    print("torch", torch.__version__, "openvino", openvino.__version__, platform.machine())
    expected = Model()(*[x.clone() for x in (x0, x1)])
    try:
        actual = run(Model().eval(), tuple([x.clone() for x in (x0, x1)]))
    except Exception as problem:
        print("openvino/cpu@precision=f32 fails:", type(problem).__name__, str(problem)[-3000:])
        print("FAULT")
        return 1
    print("openvino/cpu@precision=f32 gives", actual, "eager", expected)
    print("NO FAULT")
    return 0


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
