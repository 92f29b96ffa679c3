"""torch.onnx.export and ONNX Runtime: programs that fail to be exported or loaded. One line each."""

import sys
from collections.abc import Callable

import onnxruntime
import torch

x = torch.randn(3, 4)
programs: dict[str, tuple[Callable[[torch.Tensor], object], torch.Tensor]] = {
    "amax without dimensions": (torch.amax, x),
    "amin without dimensions": (torch.amin, x),
    "aminmax without dimensions": (torch.aminmax, x),
    "diagonal_scatter": (lambda t: torch.diagonal_scatter(t, torch.ones(3)), x),
    "tril_indices of nothing": (lambda t: torch.tril_indices(0, 0) + t.sum().long(), x),
    "triu_indices of nothing": (lambda t: torch.triu_indices(0, 0) + t.sum().long(), x),
    "linalg.vector_norm of a scalar along dimension -1": (
        lambda t: torch.linalg.vector_norm(t, dim=-1),
        torch.tensor(3.0),
    ),
}


class Program(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> object:
        return self.function(x)


failed = 0
for name, (function, given) in programs.items():
    try:
        program = torch.onnx.export(Program(function), (given,), dynamo=True, verbose=False)
        assert program is not None
        session = onnxruntime.InferenceSession(program.model_proto.SerializeToString())
        inputs = {each.name: given.numpy() for each in session.get_inputs()}
        print(f"{name}: runs, {[array.tolist() for array in session.run(None, inputs)]}")
    except Exception as error:
        failed += 1
        cause = error.__cause__ or error
        print(f"{name}: FAILS: {type(cause).__name__}: {' '.join(str(cause).split())[:140]}")
sys.exit(bool(failed))
