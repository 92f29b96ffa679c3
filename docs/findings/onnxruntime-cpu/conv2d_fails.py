"""onnxruntime/cpu: aten.conv2d.padding of bfloat16: fails

Seen with torch 2.13.0+cpu, onnxruntime 1.31.1, onnx 1.23.2, onnxscript 0.7.2.
Exit status 1: the fault is there; 0: it is gone; 2: it could not be checked.
"""

import platform
import sys
import traceback

import onnxruntime
import torch


class Model(torch.nn.Module):
    def forward(self, x0, x1):
        v2 = torch.conv2d(x0, x1)
        return (v2,)


class Boundary(torch.nn.Module):
    """The model with inputs and outputs of dtypes that numpy holds."""

    def forward(self, x0, x1):
        (y0,) = Model()(x0.to(torch.bfloat16), x1.to(torch.bfloat16))
        return (y0.to(torch.float32),)


def plain(inputs):
    (x0, x1) = inputs
    return (x0.to(torch.float32), x1.to(torch.float32))


def declared(outputs):
    (y0,) = outputs
    return (y0.to(torch.bfloat16),)


def run(model, arguments):
    program = torch.onnx.export(model, arguments, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
    feeds = {given.name: tensor.numpy() for given, tensor in zip(session.get_inputs(), arguments, strict=True)}
    return [torch.as_tensor(array) for array in session.run(None, feeds)]


x0 = torch.tensor([[[[0.0]]]], dtype=torch.bfloat16)
x1 = torch.tensor([[[[0.0]]]], dtype=torch.bfloat16)


def main():
    print("torch", torch.__version__, "onnxruntime", onnxruntime.__version__, platform.machine())
    expected = Model()(*[x.clone() for x in (x0, x1)])
    try:
        actual = declared(run(Boundary().eval(), plain(tuple([x.clone() for x in (x0, x1)]))))
    except Exception as problem:
        print("onnxruntime/cpu fails:", type(problem).__name__, str(problem)[-3000:])
        print("FAULT")
        return 1
    print("onnxruntime/cpu gives", actual, "eager", expected)
    print("NO FAULT")
    return 0


if __name__ == "__main__":
    try:
        status = main()
    except Exception:
        traceback.print_exc()
        status = 2
    sys.exit(status)
