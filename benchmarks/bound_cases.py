"""Yields the cases of `bound_sweep.py`: operators in growing sizes, and the samples of PyTorch's own tests."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

DTYPES: Final = {
    "float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16, "float16": torch.float16,
}  # fmt: skip
#: Another correct way to compute an operator, beside those of the platforms.
Way = Callable[..., Tensor]


@dataclass(frozen=True)
class Call:
    """One operator on operands. `size`: what grows; `ways`: other correct formulations, in float32."""

    op: str
    size: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    ways: tuple[Way, ...] = ()

    @property
    def dtype(self) -> str:
        """Of its first operand that rounds."""
        return next((str(a.dtype)[6:] for a in self.args if isinstance(a, Tensor) and _real(a)), "")


def _real(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def normal(*shape: int, seed: int = 0, scale: float = 1.0, shift: float = 0.0) -> Tensor:
    """Normal numbers in float64, the same on every machine."""
    drawn = np.random.Generator(np.random.Philox(seed)).standard_normal(shape)
    return torch.from_numpy(np.asarray(drawn * scale + shift))


def loop_sum(x: Tensor, dim: Any = None) -> Tensor:
    """One term after the other."""
    total = torch.zeros(x.shape[:-1], dtype=x.dtype)
    for column in x.unbind(-1):
        total = total + column
    return total


def loop_product(a: Tensor, b: Tensor) -> Tensor:
    """One product after the other."""
    total = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype)
    for column, row in zip(a.unbind(1), b.unbind(0), strict=True):
        total = total + column[:, None] * row[None, :]
    return total


def plain_dft(x: Tensor, *_: Any) -> Tensor:
    """The definition, with twiddles of full accuracy and one sum after the other."""
    n = x.shape[-1]
    angles = torch.arange(n, dtype=torch.int64)
    total = torch.zeros(*x.shape, dtype=torch.complex64)
    for k in range(n):
        turn = (-2j * torch.pi * ((angles * k) % n).double() / n).exp().to(torch.complex64)
        total = total + x[..., k : k + 1] * turn
    return total


def bluestein(x: Tensor, *_: Any) -> Tensor:
    """A transform of any length by three of a power of two."""
    n = x.shape[-1]
    m = 1 << (2 * n).bit_length()
    k = torch.arange(n, dtype=torch.int64)
    chirp = (-1j * torch.pi * ((k * k) % (2 * n)).double() / n).exp().to(torch.complex64)
    filter_ = torch.zeros(m, dtype=torch.complex64)
    filter_[:n] = chirp.conj()
    filter_[m - n + 1 :] = chirp.conj()[1:].flip(0)
    product = torch.fft.fft(x * chirp, m) * torch.fft.fft(filter_)
    return torch.fft.ifft(product)[..., :n] * chirp


def two_pass_norm(x: Tensor, shape: Any, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Statistics one sum after the other."""
    mean = (loop_sum(x) / x.shape[-1])[..., None]
    variance = (loop_sum((x - mean) ** 2) / x.shape[-1])[..., None]
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


def loop_softmax(x: Tensor, dim: int, half: bool = False) -> Tensor:
    """The sum one term after the other."""
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / loop_sum(e)[..., None]


def loop_linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """One product after the other, the bias first."""
    total = bias.expand(x.shape[0], -1)
    for column, row in zip(x.unbind(1), weight.unbind(1), strict=True):
        total = total + column[:, None] * row[None, :]
    return total


def loop_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Flash attention with blocks of one key."""
    scale = q.shape[-1] ** -0.5
    largest = torch.full((*q.shape[:-1], 1), -torch.inf)
    total, result = torch.zeros_like(largest), torch.zeros_like(q)
    for key, value in zip(k.unbind(-2), v.unbind(-2), strict=True):
        score = loop_sum(q * key.unsqueeze(-2))[..., None] * scale
        larger = torch.maximum(largest, score)
        old, new = torch.exp(largest - larger), torch.exp(score - larger)
        total, result, largest = total * old + new, result * old + new * value.unsqueeze(-2), larger
    return result / total


def loop_cumsum(x: Tensor, dim: int) -> Tensor:
    """One term after the other."""
    total, found = torch.zeros(x.shape[:-1], dtype=x.dtype), list[Tensor]()
    for column in x.unbind(-1):
        total = total + column
        found.append(total)
    return torch.stack(found, -1)


def loop_product_of(x: Tensor, dim: int) -> Tensor:
    """One factor after the other."""
    total = torch.ones(x.shape[:-1], dtype=x.dtype)
    for column in x.unbind(-1):
        total = total * column
    return total


def loop_variance(x: Tensor, dim: Any, correction: int) -> Tensor:
    """Two passes."""
    mean = (loop_sum(x) / x.shape[-1])[..., None]
    return loop_sum((x - mean) ** 2) / (x.shape[-1] - correction)


def loop_logsumexp(x: Tensor, dim: Any) -> Tensor:
    """The sum one term after the other."""
    largest = x.amax(-1, keepdim=True)
    return largest[..., 0] + torch.log(loop_sum(torch.exp(x - largest)))


def loop_rms_norm(x: Tensor, shape: Any, weight: Tensor) -> Tensor:
    """The sum one term after the other."""
    mean = (loop_sum(x * x) / x.shape[-1])[..., None]
    return x * torch.rsqrt(mean + torch.finfo(x.dtype).eps) * weight


def loop_mse(x: Tensor, target: Tensor) -> Tensor:
    """Sums of rows one term after the other, then of the rows."""
    gap = x - target
    return loop_sum(loop_sum(gap * gap)) / gap.numel()


def _sums(size: str, x: Tensor) -> Iterator[Call]:
    """Sums over the last dimension; of equal terms, whose roundings all point one way, as well."""
    yield Call("aten.sum.dim_IntList", size, (x, [-1]), {}, (loop_sum,))
    yield Call("aten.mean.dim", size, (x, [-1]), {}, (lambda a, d: loop_sum(a) / a.shape[-1],))
    yield Call("aten.cumsum.default", size, (x, -1), {}, (loop_cumsum,))
    yield Call("aten.linalg_vector_norm.default", size, (x, 2.0, [-1]), {}, (lambda a, p, d: loop_sum(a * a).sqrt(),))
    yield Call("aten.logsumexp.default", size, (x, [-1]), {}, (loop_logsumexp,))
    yield Call("aten.softmax.int", size, (x, -1), {}, (loop_softmax,))
    yield Call("aten._log_softmax.default", size, (x, -1, False), {}, (
        lambda a, d, half: a - loop_logsumexp(a, d)[..., None],))  # fmt: skip
    k = x.shape[-1]
    yield Call("aten.scatter_add.default", size, (
        torch.ones(8, 4, dtype=x.dtype), 1, (torch.arange(k) % 4).expand(8, k).contiguous(), x), {})  # fmt: skip


def _normalised(size: str, x: Tensor, other: Tensor, n: Callable[..., Tensor]) -> Iterator[Call]:
    """Normalisations and losses over the last dimension."""
    k = x.shape[-1]
    yield Call("aten.var.correction", size, (x, [-1]), {"correction": 1}, (loop_variance,))
    yield Call("aten.native_layer_norm.default", size, (x, [k], n(k, seed=7), n(k, seed=8), 1e-5), {},
               (two_pass_norm,))  # fmt: skip
    yield Call("aten.rms_norm.default", size, (x, [k], n(k, seed=7)), {}, (loop_rms_norm,))
    yield Call("aten.prod.dim_int", size, (1 + x / 100, -1), {}, (loop_product_of,))
    yield Call("aten.mse_loss.default", size, (x, other), {}, (loop_mse,))
    yield Call("aten.cross_entropy_loss.default", size, (x, torch.arange(8)), {}, (
        lambda a, t: (loop_logsumexp(a, -1) - a.gather(1, t[:, None])[:, 0]).mean(),))  # fmt: skip
    yield Call("aten.cosine_similarity.default", size, (x, other), {}, (
        lambda a, b: loop_sum(a * b) / (loop_sum(a * a).sqrt() * loop_sum(b * b).sqrt()),))  # fmt: skip


def sized(dtype: torch.dtype) -> Iterator[Call]:
    """Families whose error grows with a size."""

    def n(*shape: int, seed: int = 0, scale: float = 1.0, shift: float = 0.0) -> Tensor:
        return normal(*shape, seed=seed, scale=scale, shift=shift).to(dtype)

    for k in (16, 256, 4096, 32768):
        for seed in range(3):
            for x in (n(8, k, seed=seed), n(8, k, seed=seed).abs(), torch.full((8, k), 0.1 + seed, dtype=dtype)):
                yield from _sums(str(k), x)
            yield from _normalised(str(k), n(8, k, seed=seed), n(8, k, seed=9), n)
            # Squares that are all equal.
            turned = torch.full((8, k), 0.1 + seed, dtype=dtype)
            turned[:, ::2] *= -1
            yield from _normalised(str(k), turned, -turned, n)
    for k in (16, 128, 1024, 8192):
        for of in (torch.clone, torch.abs, lambda t: torch.full_like(t, 0.3)):
            a, b = of(n(16, k)), of(n(k, 16, seed=1))
            yield Call("aten.mm.default", str(k), (a, b), {}, (loop_product,))
            yield Call("aten.linear.default", str(k), (a, b.t().contiguous(), n(16, seed=2)), {}, (loop_linear,))
            yield Call("aten.cdist.default", str(k), (a, b.t().contiguous()), {})
            q, v = of(n(1, 2, 16, 32)), of(n(1, 2, k, 32, seed=2))
            yield Call("aten.scaled_dot_product_attention.default", f"{k} keys", (q, n(1, 2, k, 32, seed=1), v), {},
                       (loop_attention,))  # fmt: skip
    for channels in (4, 64, 256):
        yield Call("aten.conv2d.default", f"{channels}x3x3",
                   (n(1, channels, 12, 12), n(8, channels, 3, 3, seed=1), None, [1, 1], [1, 1]), {})  # fmt: skip
        yield Call("aten.conv_transpose2d.input", f"{channels}x3x3",
                   (n(1, channels, 8, 8), n(channels, 8, 3, 3, seed=1), None, [2, 2]), {})  # fmt: skip
        yield Call("aten.native_group_norm.default", f"{channels}",
                   (n(2, channels, 16, 16), n(channels, seed=1), n(channels, seed=2), 2, channels, 256, 4, 1e-5), {},
                   )  # fmt: skip
        yield Call("aten.native_batch_norm.default", f"{channels}",
                   (n(4, channels, 16, 16), n(channels, seed=1), n(channels, seed=2), None, None, True, 0.1, 1e-5), {},
                   )  # fmt: skip
    for size in (8, 32, 128):
        image = n(1, 2, size, size)
        yield Call("aten.upsample_bilinear2d.default", str(size), (image, [2 * size + 3, 2 * size - 1], False), {})
        yield Call("aten.upsample_bicubic2d.default", str(size), (image, [2 * size + 3, 2 * size - 1], False), {})
        yield Call("aten.grid_sampler_2d.default", str(size), (image, n(1, 20, 20, 2, scale=0.5), 0, 0, False), {})
        yield Call("aten.avg_pool2d.default", str(size), (image, [3, 3], [2, 2], [1, 1]), {})
    yield from transforms(dtype, n)
    yield from decompositions(dtype, n)


def transforms(dtype: torch.dtype, n: Callable[..., Tensor]) -> Iterator[Call]:
    """Fourier transforms: powers of two, primes, and what lies between."""
    if dtype not in (torch.float32, torch.float64):
        return
    ways = (plain_dft, bluestein) if dtype == torch.float32 else ()
    for k in (8, 127, 128, 131, 1000, 1009, 4096):
        x, z = n(4, k), torch.complex(n(4, k), n(4, k, seed=1))
        some = ways if k < 2000 else ways[1:]
        yield Call("aten.fft_fft.default", str(k), (x,), {}, some)
        yield Call("aten.fft_fft.default", f"{k} complex", (z,), {}, some)
        yield Call("aten._fft_r2c.default", str(k), (x, [1], 0, True), {})
        yield Call("aten._fft_c2c.default", str(k), (z, [1], 0, True), {}, some)
        yield Call("aten._fft_c2r.default", str(k), (torch.fft.rfft(x), [1], 2, k), {})
        yield Call("aten.fft_ifft.default", str(k), (z,), {})
    for k in (16, 60, 131):
        yield Call("aten.fft_fft2.default", str(k), (n(2, k, k),), {})
    window = torch.hann_window(64, dtype=dtype)
    x = n(2, 1024)
    yield Call("aten.stft.default", "64", (x, 64, 16, 64, window, False, True, True), {})
    yield Call("aten.istft.default", "64", (
        torch.stft(x, 64, 16, 64, window, return_complex=True), 64, 16, 64, window), {})  # fmt: skip


def decompositions(dtype: torch.dtype, n: Callable[..., Tensor]) -> Iterator[Call]:
    """Linear algebra on well conditioned matrices."""
    if dtype not in (torch.float32, torch.float64):
        return
    for k in (4, 16, 64):
        a = n(k, k) + 2 * k**0.5 * torch.eye(k, dtype=dtype)
        spd = a @ a.t()
        yield Call("aten.linalg_inv_ex.default", str(k), (a,), {})
        yield Call("aten._linalg_solve_ex.default", str(k), (a, n(k, 3, seed=1)), {})
        yield Call("aten.linalg_cholesky_ex.default", str(k), (spd,), {})
        yield Call("aten._linalg_det.default", str(k), (a / (2 * k**0.5),), {})
        yield Call("aten._linalg_slogdet.default", str(k), (a,), {})
        yield Call("aten.linalg_qr.default", str(k), (a,), {})
        yield Call("aten.linalg_svdvals.default", str(k), (a,), {})
        yield Call("aten._linalg_eigh.default", str(k), (spd,), {})
        yield Call("aten.linalg_matrix_exp.default", str(k), (a / (4 * k),), {})
        yield Call("aten.linalg_solve_triangular.default", str(k), (torch.triu(a), n(k, 3, seed=1)), {"upper": True})


#: Elementwise: operator -> how standard normal numbers become its operands.
_POSITIVE: Final = ("log", "log2", "log10", "sqrt", "rsqrt", "lgamma", "digamma", "special_log_ndtr")
_UNIT: Final = ("asin", "acos", "atanh", "erfinv", "logit", "special_ndtri", "special_entr")
ELEMENTWISE: Final = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh",
    "atanh", "sin", "cos", "tan", "erf", "erfc", "erfinv", "tanh", "sigmoid", "silu", "hardswish", "hardsigmoid",
    "lgamma", "digamma", "i0", "mish", "softplus", "log_sigmoid", "elu", "selu", "celu", "sqrt", "rsqrt", "reciprocal",
    "square", "sinc", "logit", "gelu", "special_erfcx", "special_ndtri", "special_log_ndtr", "special_entr",
    "special_i0e", "special_i1", "special_i1e", "special_ndtr", "special_bessel_j0", "special_bessel_j1",
    "special_bessel_y0", "special_bessel_y1", "special_modified_bessel_i0", "special_modified_bessel_i1",
    "special_modified_bessel_k0", "special_modified_bessel_k1", "special_scaled_modified_bessel_k0",
    "special_scaled_modified_bessel_k1", "special_spherical_bessel_j0", "special_airy_ai",
)  # fmt: skip
_BINARY: Final = (
    "add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "atan2.default", "hypot.default", "logaddexp.default",
    "logaddexp2.default", "xlogy.Tensor", "pow.Tensor_Tensor", "remainder.Tensor", "fmod.Tensor",
    "floor_divide.default",
)  # fmt: skip


def elementwise(dtype: torch.dtype) -> Iterator[Call]:
    """2,048 numbers each."""
    x, y = normal(2048, scale=2.0), normal(2048, seed=1, scale=2.0)
    for name in ELEMENTWISE:
        operand = x
        if name in _POSITIVE or "bessel_k" in name or "bessel_y" in name:
            operand = x.abs() + 0.01
        elif name in _UNIT:
            operand = torch.sigmoid(x)
        elif name == "acosh":
            operand = x.abs() + 1
        yield Call(f"aten.{name}.default", "2048", (operand.to(dtype),), {})
    yield Call("aten.gelu.default", "2048 tanh", (x.to(dtype),), {"approximate": "tanh"})
    for name in _BINARY:
        first = x.abs() if "pow" in name or "xlogy" in name else x
        yield Call(f"aten.{name}", "2048", (first.to(dtype), y.to(dtype)), {})


class _Recorder(TorchDispatchMode):
    """Keeps the operators that run below it, with their operands."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.calls: dict[tuple[str, str], list[Call]] = defaultdict(list)
        self._most = most

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kept: Any = torch.utils._pytree.tree_map(_copied, (args, kwargs or {}))
        result = func(*args, **(kwargs or {}))
        schema = func._schema
        if schema.name.startswith("aten::") and not schema.is_mutable:
            call = Call(str(func), "sample", tuple(kept[0]), kept[1])
            key = call.op, call.dtype
            leaves = [t for t in torch.utils._pytree.tree_leaves(kept) if isinstance(t, Tensor)]
            plain = (
                all(t.layout == torch.strided for t in leaves) and torch.Tag.nondeterministic_seeded not in func.tags
            )
            if plain and call.dtype and len(self.calls[key]) < self._most:
                self.calls[key].append(call)
        return result


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def samples(dtype: torch.dtype, most: int, backward: bool) -> list[Call]:
    """Up to `most` calls of each overload that PyTorch's operator samples run, forward and backward."""
    from torch.testing._internal.common_methods_invocations import op_db

    recorder = _Recorder(most)
    for info in op_db:
        if dtype not in info.dtypes:
            continue
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _record(info, dtype, recorder, backward)
    return [call for calls in recorder.calls.values() for call in calls]


def _record(info: Any, dtype: torch.dtype, recorder: _Recorder, backward: bool) -> None:
    grad = backward and info.supports_autograd
    try:
        given = list(zip(range(8), info.sample_inputs("cpu", dtype, requires_grad=grad), strict=False))
    except Exception as error:  # a sample that PyTorch cannot make for this dtype is no case
        print(f"# no samples of {info.name}: {type(error).__name__}")
        return
    for _, sample in given:
        try:
            with recorder:
                result = info.op(sample.input, *sample.args, **sample.kwargs)
                if grad and isinstance(result, Tensor) and result.requires_grad and _real(result):
                    result.backward(torch.ones_like(result))
        except Exception as error:  # nor one that it refuses
            print(f"# {info.name}: {type(error).__name__}")
