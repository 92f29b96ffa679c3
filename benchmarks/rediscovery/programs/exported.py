"""Programs for ONNX Runtime and OpenVINO."""

import torch
from torch import nn
from torch.nn import functional as F

NAN = float("nan")


class Call(nn.Module):
    """A function as a module, which exporters ask for."""

    def __init__(self, call):
        super().__init__()
        self.call = call

    def forward(self, *args):
        return self.call(*args)


def sigmoid_of_negative():
    return Call(torch.sigmoid), (torch.linspace(-20, -10, 32),)


def erfcx():
    return Call(torch.special.erfcx), (torch.linspace(1, 8, 16),)


def max_pool_of_nan():
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    x[0, 0, 1, 1] = NAN
    return Call(lambda x: F.max_pool2d(x, 2)), (x,)


def min_with_nan():
    return Call(lambda x: x.amin(1)), (torch.tensor([[1.0, NAN, 0.5], [2.0, 3.0, NAN]]),)


def convolution_of_bfloat16():
    torch.manual_seed(0)
    return nn.Conv2d(2, 3, 3).bfloat16().eval(), (torch.randn(1, 2, 6, 6).bfloat16(),)


def repeat_with_output_size():
    return Call(lambda x, n: torch.repeat_interleave(x, n, 0, output_size=6)), (
        torch.arange(3.0),
        torch.tensor([1, 2, 3]),
    )


def amin_of_everything():
    torch.manual_seed(0)
    return Call(lambda x: x.amin()), (torch.randn(3, 4),)


def squeeze_of_dimension_of_two():
    return Call(lambda x: x.squeeze(1) + 1), (torch.ones(3, 2),)


def amax_of_one_number():
    return Call(lambda x: x.amax(0)), (torch.tensor(3.0),)


def einsum_with_two_ellipses():
    torch.manual_seed(0)
    return Call(lambda a, b: torch.einsum("...ij,...jk->...ik", a, b)), (torch.randn(2, 3, 4), torch.randn(4, 5))


def softmax_to_float64():
    torch.manual_seed(0)
    return Call(lambda x: F.softmax(x, -1, dtype=torch.float64)), (torch.randn(4, 8),)


def fourier_of_thousand():
    torch.manual_seed(0)
    return Call(lambda x: torch.view_as_real(torch.fft.rfft(x))), (torch.randn(1000),)


def floor_divide_of_floats():
    torch.manual_seed(0)
    return Call(lambda a, b: a // b), (torch.tensor([1.0, 0.5, 6.0, 7.5]), torch.tensor([0.1, 0.1, 0.2, 0.3]))


def masked_attention():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 4, 8) for _ in range(3))
    mask = torch.ones(4, 4, dtype=torch.bool)
    mask[2] = False
    return Call(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)), (q, k, v)


def smoothed_cross_entropy():
    torch.manual_seed(0)
    return nn.CrossEntropyLoss(label_smoothing=0.3), (torch.randn(4, 5), torch.tensor([0, 3, 1, 2]))


def mean_scatter_reduce():
    index, source = torch.tensor([0, 1, 0, 1, 2]), torch.tensor([1.0, 2.0, 5.0, 7.0, 3.0])
    return Call(lambda x: x.scatter_reduce(0, index, source, "mean", include_self=False)), (torch.zeros(3),)


def antialiased_by_factor():
    torch.manual_seed(0)
    return Call(lambda x: F.interpolate(x, scale_factor=0.3, mode="bilinear", antialias=True)), (
        torch.randn(1, 1, 11, 11),
    )


def antialiased_to_size():
    torch.manual_seed(0)
    return Call(lambda x: F.interpolate(x, (5, 5), mode="bilinear", antialias=True)), (torch.randn(1, 1, 12, 12),)


def pad_then_average_pool():
    torch.manual_seed(0)
    return nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.AvgPool2d(2, 1)), (torch.rand(1, 1, 2, 2) + 1,)


def pad_then_padded_average_pool():
    torch.manual_seed(0)
    return nn.Sequential(nn.ZeroPad2d(1), nn.AvgPool2d(3, 2, padding=1, count_include_pad=False)), (
        torch.rand(1, 2, 6, 6) + 1,
    )


def average_pool_with_ceil():
    torch.manual_seed(0)
    return nn.AvgPool2d(3, 2, padding=1, ceil_mode=True), (torch.rand(1, 2, 6, 6) + 1,)


def max_pool_with_ceil():
    torch.manual_seed(0)
    return nn.MaxPool3d(3, padding=1, ceil_mode=True), (torch.randn(1, 2, 3, 6, 5),)


def einsum_of_one_with_sum():
    torch.manual_seed(0)
    return Call(lambda x: torch.einsum("ijk->ki", x)), (torch.randn(2, 3, 4),)


def floor_divide_of_negative_integers():
    return Call(lambda a, b: a // b), (torch.tensor([-7, -5, 5, 9]), torch.tensor([2, 2, -2, 4]))


def remainder_of_large_integers():
    return Call(torch.remainder), (torch.tensor([16777217, 77777777, 9]), torch.tensor([10, 10, 4]))


def square_of_integers():
    return Call(lambda x: x**2), (torch.tensor([5001, 40001, 3], dtype=torch.int32),)


def clamp_of_nan():
    return Call(lambda x: (x.clamp(-1, 1), F.relu(x))), (torch.tensor([NAN, 2.0, -2.0, 0.5]),)


def greater_than_nan():
    return Call(lambda x, y: (x > y, x >= y)), (torch.tensor([1.0, NAN, 2.0]), torch.tensor([NAN, 1.0, 1.0]))


def variance_with_correction():
    torch.manual_seed(0)
    return Call(lambda x: torch.var(x, 1, correction=2)), (torch.randn(3, 6),)


def softplus_of_negative():
    return Call(F.softplus), (torch.linspace(-30, -5, 24),)


def erf_of_small():
    return Call(torch.erf), (torch.logspace(-7, -1.5, 24),)


def integer_from_one():
    return Call(lambda x: 1.0 - x), (torch.tensor([1, 2, 3]),)
