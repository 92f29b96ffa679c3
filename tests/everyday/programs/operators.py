"""Operators of the user's own, functions with a derivative of their own, transforms, higher-order operators."""

import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention


@torch.library.custom_op("everyday::scaled_square", mutates_args=())
def scaled_square(x: torch.Tensor, scale: float) -> torch.Tensor:
    return x * x * scale


@scaled_square.register_fake
def _(x, scale):
    return torch.empty_like(x)


@torch.library.custom_op("everyday::no_fake", mutates_args=())
def no_fake(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.numpy().cumsum(-1))


@torch.library.custom_op("everyday::fake_of_wrong_dtype", mutates_args=())
def fake_of_wrong_dtype(x: torch.Tensor) -> torch.Tensor:
    return (x * 3).to(torch.float64)


@fake_of_wrong_dtype.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("everyday::fake_of_wrong_shape", mutates_args=())
def fake_of_wrong_shape(x: torch.Tensor) -> torch.Tensor:
    return x.sum(-1)


@fake_of_wrong_shape.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("everyday::undeclared_write", mutates_args=())
def undeclared_write(x: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    return x + 1


@undeclared_write.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("everyday::declared_write", mutates_args={"x"})
def declared_write(x: torch.Tensor) -> None:
    x.mul_(2)


class Calls(nn.Module):
    def __init__(self, operator, *rest):
        super().__init__()
        self.linear, self.operator, self.rest = nn.Linear(6, 6), operator, rest

    def forward(self, x):
        return torch.relu(self.operator(self.linear(x), *self.rest))


class Undeclared(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        h = self.linear(x)
        y = undeclared_write(h)
        return y + h


class Declared(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)

    def forward(self, x):
        h = self.linear(x)
        declared_write(h)
        return h + 1


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Binarised(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 4)

    def forward(self, x):
        return StraightThrough.apply(self.linear(x)) * 0.5


class Mapped(nn.Module):
    """One matrix for each row of the batch, by vmap."""

    def forward(self, matrices, rows):
        return torch.vmap(lambda matrix, row: torch.tanh(matrix @ row))(matrices, rows)


class Derivative(nn.Module):
    """A field and its Jacobian, by torch.func."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, x):
        return torch.vmap(torch.func.jacfwd(self.net))(x)


class Called(nn.Module):
    """A net called with other parameters than its own."""

    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 3)

    def forward(self, x, weight, bias):
        return torch.func.functional_call(self.net, {"weight": weight, "bias": bias}, (x,))


class Conditional(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.one(x), lambda x: self.two(x) * 2, (x,))


class Flexible(nn.Module):
    """Attention with a bias by distance."""

    def forward(self, q, k, v):
        return flex_attention(q, k, v, score_mod=lambda score, b, h, i, j: score - 0.1 * (i - j).abs())


def custom_operator():
    torch.manual_seed(0)
    return Calls(scaled_square, 0.5).eval(), (torch.randn(3, 6),)


def custom_operator_without_fake():
    torch.manual_seed(0)
    return Calls(no_fake).eval().requires_grad_(False), (torch.randn(3, 6),)


def custom_operator_of_wrong_dtype():
    torch.manual_seed(0)
    return Calls(fake_of_wrong_dtype).eval(), (torch.randn(3, 6),)


def custom_operator_of_wrong_shape():
    torch.manual_seed(0)
    return Calls(fake_of_wrong_shape).eval(), (torch.randn(3, 6),)


def custom_operator_that_writes_unsaid():
    torch.manual_seed(0)
    return Undeclared().eval().requires_grad_(False), (torch.randn(3, 6),)


def custom_operator_that_writes():
    torch.manual_seed(0)
    return Declared().eval().requires_grad_(False), (torch.randn(3, 6),)


def derivative_of_its_own():
    torch.manual_seed(0)
    return Binarised(), (torch.randn(3, 6),)


def mapped_over_a_batch():
    torch.manual_seed(0)
    return Mapped(), (torch.randn(3, 4, 4), torch.randn(3, 4))


def jacobian():
    torch.manual_seed(0)
    return Derivative(), (torch.randn(4, 3),)


def other_parameters():
    torch.manual_seed(0)
    return Called(), (torch.randn(2, 4), torch.randn(3, 4), torch.randn(3))


def condition():
    torch.manual_seed(0)
    return Conditional().eval(), (torch.randn(2, 4),)


def attention_with_a_bias():
    torch.manual_seed(0)
    return Flexible(), tuple(torch.randn(1, 2, 8, 8) for _ in range(3))
