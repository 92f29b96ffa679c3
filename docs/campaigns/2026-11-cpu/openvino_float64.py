"""OpenVINO, CPU: float64 arithmetic is computed in float32, and the result has the dtype float64."""

import sys

import numpy as np
import openvino
import torch


class Plus(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + 1e-10) - 1.0


x = torch.ones(4, dtype=torch.float64)
model = openvino.convert_model(Plus(), example_input=x)
compiled = openvino.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
given = np.asarray(compiled(x.numpy())[0])
print("PyTorch:", Plus()(x)[0].item(), " OpenVINO:", given[0], given.dtype)
sys.exit(not np.allclose(given, 1e-10, rtol=1e-3, atol=0.0))
