"""PyTorch, CPU: the gradient of batch normalisation in evaluation, of a 2-D input and a running mean with stride 2.

The weight's gradient is sum(grad * (x - mean) / sqrt(var + eps)). It must not depend on the strides of the mean.
"""

import sys

import torch

torch.manual_seed(0)
x, grad, weight = torch.randn(8, 20), torch.randn(8, 20), torch.randn(20)
mean, var, empty = torch.randn(20), torch.rand(20) + 0.5, torch.empty(0)
spread = torch.zeros(20, 2)[:, 0].copy_(mean)
assert spread.stride() == (2,)
assert torch.equal(spread, mean)


def gradient(running_mean: torch.Tensor) -> torch.Tensor:
    backward = torch.ops.aten.native_batch_norm_backward
    return backward(grad, x, weight, running_mean, var, empty, empty, False, 1e-5, [True, True, True])[1]


right = (grad * (x - mean) / torch.sqrt(var + 1e-5)).sum(0)
print("contiguous mean, largest error:", (gradient(mean) - right).abs().max().item())
wrong = False
for call in range(3):
    # Other memory each time: what was freed is what is read.
    torch.full((1000,), 10.0**call)
    error = (gradient(spread) - right).abs()
    channels = (~(error < 1e-2)).nonzero().flatten().tolist()
    print(f"strided mean, call {call}: largest error {error.max().item():.4g}, wrong channels {channels}")
    wrong |= bool(channels)
sys.exit(wrong)
