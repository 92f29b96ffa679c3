"""torch.onnx.export: 0 / (0 + 1e-16) is 0 in PyTorch, and NaN after export where the addition is folded away."""

import sys

import onnxruntime
import torch


class Ratio(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x / (x + 1e-16)


x = torch.tensor([0.0, 1.0, -2.0])
program = torch.onnx.export(Ratio(), (x,), dynamo=True, verbose=False)
assert program is not None
session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
(given,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
print("operators:", [node.op_type for node in program.model_proto.graph.node])
print("PyTorch:", Ratio()(x).tolist(), " ONNX Runtime:", given.tolist())
sys.exit(not torch.equal(torch.from_numpy(given), Ratio()(x)))
