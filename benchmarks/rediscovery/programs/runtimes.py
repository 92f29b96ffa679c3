"""Programs for TVM, IREE, tinygrad, LiteRT and ExecuTorch."""

import torch
from torch.nn import functional as F


def norm_with_statistics():
    def f(x, mean, variance):
        mean, variance = mean.clone(), variance.clone()
        return F.batch_norm(x, mean, variance, training=True), mean, variance

    torch.manual_seed(0)
    return f, (torch.randn(2, 3, 4, 4), torch.tensor([0.5, -1.0, 2.0]), torch.tensor([1.0, 2.0, 0.5]))


def half_of_integers():
    return lambda x: x * 0.5, (torch.arange(1, 9),)


def quotient_of_integers():
    return lambda x, y: x / y, (torch.arange(1, 9), torch.full((8,), 2))


def pool_with_divisor():
    torch.manual_seed(0)
    return lambda x: F.avg_pool2d(x, 2, divisor_override=3), (torch.randn(1, 2, 6, 6),)


def running_sum_of_bytes():
    return lambda x: torch.cumsum(x, 0), (torch.tensor([100, 90, 80], dtype=torch.int8),)


def any_of_floats():
    return lambda x: torch.any(x, 1), (torch.tensor([[-1.0, 0.0, -2.0], [0.0, 0.0, 0.0]]),)


def argmax_of_one_number():
    torch.manual_seed(0)
    return lambda x: torch.argmax(x.mean()), (torch.randn(4, 8),)


def arcsine_of_half():
    return torch.asin, (torch.linspace(-0.9, 0.9, 16, dtype=torch.float16),)


def double_to_float():
    return lambda x: x.float() * 2, (torch.linspace(0, 1, 24, dtype=torch.float64),)


def bytes_to_unit():
    return lambda x: x / 255, (torch.arange(0, 256, 5).to(torch.uint8),)


def pad_that_crops():
    torch.manual_seed(0)
    return lambda x: F.pad(x, [-1, 1]), (torch.randn(3, 6),)


def grid_sample_to_border():
    torch.manual_seed(0)
    return lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=False), (
        torch.rand(1, 2, 4, 4) + 1,
        torch.linspace(-1.5, 1.5, 12).reshape(1, 2, 3, 2),
    )


def unpool_with_overlap():
    def f(x):
        y, index = F.max_pool2d(x, 3, 2, return_indices=True)
        return F.max_unpool2d(y, index, 3, 2)

    torch.manual_seed(0)
    return f, (torch.randn(1, 1, 7, 7),)


def decimal_logarithm():
    return torch.log10, (torch.linspace(1, 100, 64),)


def attention_with_flat_mask():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 16, 32) for _ in range(3))
    return F.scaled_dot_product_attention, (q, k, v, torch.zeros(16, 16))


def largest_bytes():
    return torch.maximum, (torch.tensor([200, 5], dtype=torch.uint8), torch.tensor([7, 220], dtype=torch.uint8))


def bytes_by_three():
    return lambda x: x // 3, (torch.arange(40, dtype=torch.uint8),)


def tanh_of_small():
    return torch.tanh, (torch.logspace(-9, -2, 32),)


def arctangent_of_large():
    return torch.atan, (torch.linspace(-5000, 5000, 64),)


def cube_of_integers():
    return lambda x: x**3, (torch.arange(1000, 1032, dtype=torch.int32),)


def maximum_with_nan():
    return torch.maximum, (torch.tensor([1.0, 2.0, 3.0]), torch.tensor([float("nan"), 1.0, 4.0]))


def log1p_of_small():
    return torch.log1p, (torch.logspace(-9, -2, 32),)


def expm1_of_small():
    return torch.expm1, (torch.logspace(-9, -2, 32),)


def scatter_add():
    torch.manual_seed(0)
    return lambda x, i, v: torch.scatter_add(x, 0, i, v), (
        torch.zeros(4),
        torch.tensor([0, 1, 1, 3, 0]),
        torch.randn(5),
    )


def pad_of_nothing():
    return lambda x: F.pad(x, (0, 1)), (torch.empty(0, 3, 32),)


def convolution_in_three_dimensions():
    torch.manual_seed(0)
    return torch.nn.Conv3d(2, 3, 3).eval(), (torch.randn(1, 2, 6, 6, 6),)


def log_softmax_of_double():
    torch.manual_seed(0)
    return lambda x: F.log_softmax(x, -1), (torch.randn(4, 8, dtype=torch.float64),)


def gelu_by_tanh():
    torch.manual_seed(0)
    return lambda x: F.gelu(x, approximate="tanh"), (torch.linspace(-3, 3, 64),)
