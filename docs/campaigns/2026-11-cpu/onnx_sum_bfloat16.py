"""torch.onnx.export and ONNX Runtime: a sum of bfloat16 returns float32."""

import sys

import onnxruntime
import torch


class Sum(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.bfloat16).sum()


x = torch.randn(3, 8)
program = torch.onnx.export(Sum(), (x,), dynamo=True, verbose=False)
assert program is not None
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
(given,) = session.run_with_ort_values(
    None, {session.get_inputs()[0].name: onnxruntime.OrtValue.ortvalue_from_numpy(x.numpy())}
)
print("PyTorch:", Sum()(x).dtype, " ONNX Runtime:", given.data_type())
sys.exit(given.data_type() != "tensor(bfloat16)")
