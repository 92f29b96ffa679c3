"""OpenVINO, CPU: fft.irfft of three dimensions, through ONNX and through OpenVINO's PyTorch front end."""

import sys

import numpy as np
import openvino
import torch


class Inverse(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.fft.irfft(torch.view_as_complex(x), n=8)


x = torch.randn(2, 3, 5, 2)
right = tuple(Inverse()(x).shape)
wrong = False


def shape_of(model: openvino.Model) -> tuple[int, ...]:
    return np.asarray(openvino.compile_model(model, "CPU")(x.numpy())[0]).shape


def by_onnx() -> openvino.Model:
    program = torch.onnx.export(Inverse(), (x,), dynamo=True, verbose=False)
    assert program is not None
    return openvino.Core().read_model(program.model_proto.SerializeToString())


for way, model in (("ONNX", by_onnx), ("PyTorch", lambda: openvino.convert_model(Inverse(), example_input=x))):
    try:
        given = shape_of(model())
        wrong |= given != right
        print(f"by way of {way}: {given} where PyTorch gives {right}")
    except Exception as error:
        print(f"by way of {way}: does not run: {type(error).__name__}: {' '.join(str(error).split())[:200]}")
sys.exit(wrong)
