"""TorchScript: tracing and scripting view(dtype), fill_(number), scatter(value) and gradient(list of spacings)."""

import sys
from collections.abc import Callable

import torch

x, index = torch.randn(4, 4), torch.tensor([[0, 1, 2, 3]])
programs: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]] = {
    "view.dtype": (lambda t: torch.ops.aten.view.dtype(t, torch.int32), x),
    "fill.Scalar": (lambda t: torch.ops.aten.fill.Scalar(t, 2.0), x),
    "scatter.value": (lambda t: torch.ops.aten.scatter.value(t, 0, index, 1.5), x),
    "gradient.scalarrayint": (lambda t: torch.gradient(t, spacing=[2.0, 3.0])[0], x),
}
found = 0
for name, (program, given) in programs.items():
    try:
        traced = torch.jit.trace(program, (given,), check_trace=False)
        same = torch.equal(traced(given), program(given))
        print(f"{name}: traced, {'the same' if same else 'ANOTHER RESULT'}")
        found += not same
    except Exception as error:
        found += 1
        print(f"{name}: {type(error).__name__}: {' '.join(str(error).split())[:160]}")
sys.exit(bool(found))
