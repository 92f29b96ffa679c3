"""onnx/reference: aten.conv_transpose3d.input of float32: fails

Seen with torch 2.13.0+cpu, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
import sys
import traceback

import numpy as np
import onnx
import torch


class Model(torch.nn.Module):
    def forward(self, x0, x1, x2):
        v3 = torch.conv_transpose3d(x0, x1, x2, [1, 1, 1], [1, 2, 3], [2, 3, 1], 2, [4, 4, 4])
        return (v3,)


def run(model, arguments):
    import onnx.reference

    program = torch.onnx.export(model, arguments, dynamo=True, verbose=False)
    onnx.checker.check_model(program.model_proto, full_check=True)
    evaluator = onnx.reference.ReferenceEvaluator(program.model_proto)
    feeds = {name: tensor.numpy() for name, tensor in zip(evaluator.input_names, arguments, strict=True)}
    return [torch.as_tensor(np.asarray(array)) for array in evaluator.run(None, feeds)]


x0 = torch.full((2, 1, 2, 2), 0.0, dtype=torch.float32)
x1 = torch.full((2, 2, 1, 1, 2), 0.0, dtype=torch.float32)
x2 = torch.full((4,), 0.0, dtype=torch.float32)


def main():
    print("torch", torch.__version__, "onnx", onnx.__version__, platform.machine())
    expected = Model()(*[x.clone() for x in (x0, x1, x2)])
    try:
        actual = run(Model().eval(), tuple([x.clone() for x in (x0, x1, x2)]))
    except Exception as problem:
        print("onnx/reference fails:", type(problem).__name__, str(problem)[-3000:])
        print("FAULT")
        return 1
    print("onnx/reference gives", actual, "eager", expected)
    print("NO FAULT")
    return 0


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
