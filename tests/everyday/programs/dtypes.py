"""Number formats: half precision, bfloat16, autocast, double, complex, transforms, integers, booleans."""

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Autocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.net(x).float()


class HalfNorm(nn.Module):
    """The root of the mean square in float16; squares of the values do not overflow."""

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)


class Rotated(nn.Module):
    """Rotary positions as complex numbers, as the first Llama had them."""

    def forward(self, x, angles):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        turned = pairs * torch.polar(torch.ones_like(angles), angles)
        return torch.view_as_real(turned).flatten(-2)


class LongConvolution(nn.Module):
    """A filter as long as the sequence, by the product of spectra."""

    def __init__(self):
        super().__init__()
        self.filter = nn.Parameter(torch.randn(4, 16) * 0.2)

    def forward(self, x):
        n = x.shape[-1]
        return torch.fft.irfft(torch.fft.rfft(x, n=2 * n) * torch.fft.rfft(self.filter, n=2 * n), n=2 * n)[..., :n]


class Mixer(nn.Module):
    """Mixing by the real part of a transform over two dimensions."""

    def forward(self, x):
        return torch.fft.fft2(x.to(torch.complex64)).real


class ComplexLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4, dtype=torch.complex64))

    def forward(self, x):
        y = x.to(torch.complex64) @ self.weight
        return y.abs(), y.angle(), (y * y.conj()).real


class WholeNumbers(nn.Module):
    def forward(self, a, b):
        return a // b, a % b, torch.div(a, b, rounding_mode="trunc"), (a << 2) ^ b, a.to(torch.float32) / b


class Bytes(nn.Module):
    def forward(self, a, b):
        return a + b, a * 2, (a.float() - b.float()).abs().to(torch.uint8), a > b


class Stamps(nn.Module):
    """Time stamps in nanoseconds: differences and whole seconds."""

    def forward(self, stamps):
        return stamps - stamps[:1], stamps // 1_000_000_000


class Logic(nn.Module):
    def forward(self, a, b):
        return a & ~b, (a ^ b).any(-1), torch.where(a, 1.0, 2.0), (a | b).sum(-1), a.all()


class Promoted(nn.Module):
    """Sums of a half tensor, an integer, a float number and a zero-dimensional double."""

    def forward(self, half, whole):
        return half * 2.5 + whole, whole / 3, half + torch.tensor(1.5, dtype=torch.float64)


class Accumulated(nn.Module):
    """Sums and powers in double, then single precision."""

    def forward(self, x):
        y = x.double()
        return (y.pow(2).sum(-1) - y.sum(-1).pow(2) / y.shape[-1]).float(), torch.logsumexp(y, -1)


def rows(dtype=torch.float32, scale=1.0):
    return (torch.randn(3, 16, generator=torch.Generator().manual_seed(1)) * scale).to(dtype)


def half():
    torch.manual_seed(0)
    return Net().eval().half(), (rows(torch.float16),)


def bfloat16():
    torch.manual_seed(0)
    return Net().eval().bfloat16(), (rows(torch.bfloat16),)


def autocast():
    torch.manual_seed(0)
    return Autocast().eval(), (rows(),)


def double():
    torch.manual_seed(0)
    return Net().eval().double(), (rows(torch.float64),)


def half_norm():
    return HalfNorm(), (rows(torch.float16, 4.0),)


def complex_rotation():
    return Rotated(), (rows(), torch.linspace(0, 3, 8))


def long_convolution():
    torch.manual_seed(0)
    return LongConvolution(), (torch.randn(2, 4, 16),)


def mixing_by_a_transform():
    return Mixer(), (rows(),)


def complex_linear():
    torch.manual_seed(0)
    return ComplexLinear(), (rows()[:, :4],)


def whole_numbers():
    return WholeNumbers(), (torch.tensor([7, -7, 9, -10, 0]), torch.tensor([2, 2, -4, -3, 5]))


def bytes_that_wrap():
    a = torch.tensor([0, 100, 200, 255], dtype=torch.uint8)
    return Bytes(), (a, torch.tensor([1, 160, 60, 255], dtype=torch.uint8))


def time_stamps():
    return Stamps(), (torch.tensor([1_730_000_000_123_456_789, 1_730_000_001_000_000_000, 1_730_000_123_999_999_999]),)


def logic():
    torch.manual_seed(0)
    return Logic(), (torch.rand(3, 5) > 0.5, torch.rand(3, 5) > 0.5)


def promoted():
    return Promoted(), (rows(torch.float16), torch.arange(16, dtype=torch.int32))


def accumulated_in_double():
    return Accumulated(), (rows(),)
