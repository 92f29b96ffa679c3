"""What the language of a platform's kernels promises of its functions, where that is less than what bounds allow.

A shading language lets `sin` be wrong by 2⁻¹¹. A platform declares its language (`platforms.protocol.ACCURACY`). Its
results are judged by the usual bounds first. What is beyond those is judged again within `promised_by`, where the bound
of each function of the language is at least what the language promises.

WGSL: the W3C's WebGPU Shading Language, section "Floating Point Accuracy", tables "Accuracy of concrete floating point
operations" and "... built-in functions", for f32. SPIR-V for Vulkan: Khronos' Vulkan specification, appendix "Vulkan
Environment for SPIR-V", "Precision of GLSL.std.450 Instructions", single precision: the same numbers, but for `asin`,
`acos` and `tanh`. OpenCL C: Khronos' OpenCL C 3.0 specification, "Relative Error as ULPs", single precision, full
profile; its conformance tests have the same numbers (OpenCL-CTS, `math_brute_force/function_list.cpp`), but for `erf`
and `erfc`, which they leave out. ULP(y) is at most 2u·|y|. An operator of PyTorch that is no function
of the language inherits from the expression that a shader computes it with, as the tables do for `tanh` or `pow`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from mindgap.judge.oracle.bounds.rules import Site

#: The largest error of each element of an operator's first result.
_Promise = Callable[["Site", torch.Tensor], torch.Tensor]
#: ULP(y) / |y| of float32, at most.
_ULP: Final = 2.0**-23
_PROMISED: Final[ContextVar[str]] = ContextVar("promised", default="")


@contextmanager
def promised_by(language: str) -> Generator[None]:
    """Bounds are at least what `language` promises, in the block; empty for no language.

    Raises `KeyError` for a language without a table.
    """
    if language:
        _TABLES[language]
    token = _PROMISED.set(language)
    try:
        yield
    finally:
        _PROMISED.reset(token)


def promised_error(site: Site, result: Any) -> torch.Tensor | None:
    """The largest error that the language of the block allows each element of a result in float32 or complex64; None
    for no promise. Of complex results only `polar` is an expression of the language's functions of real numbers."""
    packet = site.call.packet
    promise = _TABLES.get(_PROMISED.get(), {}).get(packet)
    if promise is None or site.u_out != _ULP / 2 or not isinstance(result, torch.Tensor):
        return None
    if result.is_complex() and packet != "polar":
        return None
    return torch.nan_to_num(promise(site, result), nan=0.0, posinf=0.0)


def _operand(site: Site, place: int = 0) -> torch.Tensor:
    return torch.as_tensor(site.args[place], dtype=torch.float64)


def _ulps(count: float) -> _Promise:
    return lambda site, y: count * _ULP * y.abs()


def _absolute(error: float) -> _Promise:
    return lambda site, y: torch.full_like(y, error)


def _periodic(site: Site, y: torch.Tensor, place: int = 0) -> torch.Tensor:
    """2⁻¹¹ within [-π, π]. Beyond, nothing is promised; it is taken to grow as the rounding of the operand does.
    `place`: of the angle among the operands."""
    return 2.0**-11 * (_operand(site, place).abs() / math.pi).clamp(min=1.0)


def _polar(site: Site, y: torch.Tensor) -> torch.Tensor:
    """r · cos(angle) and r · sin(angle): an error of both, and a rounded product."""
    return (math.sqrt(2) * _periodic(site, y, 1) + _ULP) * y.abs()


def _tan(site: Site, y: torch.Tensor) -> torch.Tensor:
    """sin(x) / cos(x)."""
    return _periodic(site, y) * (1 + y.abs()) * (1 + y * y).sqrt() + 2.5 * _ULP * y.abs()


def _sinc(site: Site, y: torch.Tensor) -> torch.Tensor:
    """sin(πx) / (πx)."""
    x = math.pi * _operand(site).abs()
    return 2.0**-11 * (x / math.pi).clamp(min=1.0) / x + 2.5 * _ULP * y.abs()


def _exp_error(x: torch.Tensor) -> torch.Tensor:
    """The error of exp(x), relative to it: 3 + 2·|x| ULP."""
    return (3 + 2 * x.abs()) * _ULP


def _exp(site: Site, y: torch.Tensor) -> torch.Tensor:
    return _exp_error(_operand(site)) * y.abs()


def _exp_like(site: Site, y: torch.Tensor) -> torch.Tensor:
    """Expressions of exp(x), which is at most 1 + 2·|y|, and a logarithm: `expm1`, `elu`, `sinh`, `softplus`."""
    return _exp_error(_operand(site)) * (1 + 2 * y.abs()) + 2.0**-21


def _log(site: Site, y: torch.Tensor) -> torch.Tensor:
    """2⁻²¹ where the operand is in [0.5, 2], else 3 ULP."""
    x = _operand(site) + (1 if site.call.packet == "log1p" else 0)
    near = (x >= 0.5) & (x <= 2)
    rounded = _ULP if site.call.packet == "log1p" else 0.0
    return torch.where(near, 2.0**-21 + rounded, 3 * _ULP * y.abs())


def _log10(site: Site, y: torch.Tensor) -> torch.Tensor:
    """log(x), times a constant."""
    return 0.4343 * _log(site, y / 0.4343) + _ULP * y.abs()


def _pow(site: Site, y: torch.Tensor) -> torch.Tensor:
    """exp2(b · log2(a))."""
    a, b = _operand(site, 0), _operand(site, 1)
    log = a.abs().log2()
    error = torch.where((a.abs() >= 0.5) & (a.abs() <= 2), 2.0**-21, 3 * _ULP * log.abs())
    return y.abs() * (math.log(2) * (b.abs() * error + _ULP * (b * log).abs()) + _exp_error(b * log))


def _asinh(site: Site, y: torch.Tensor) -> torch.Tensor:
    """log(x + sqrt(x·x + 1)), whose sum cancels for negative x; `acosh` with - 1."""
    x = _operand(site)
    square = (x * x + (1 if site.call.packet == "asinh" else -1)).clamp(min=0.0)
    root = square.sqrt()
    # Of the root: its error, and that of the rounded square.
    error = _ULP * (5.5 * root + x * x / root.clamp(min=2.0**-12) + x.abs())
    return error / (x + root).abs().clamp(min=2.0**-60) + 2.0**-21 + 3 * _ULP * y.abs()


def _atanh(site: Site, y: torch.Tensor) -> torch.Tensor:
    """log((1 + x) / (1 - x)) / 2."""
    return 0.5 * (5 * _ULP + 2.0**-21) + 4 * _ULP * y.abs()


def _tanh(site: Site, y: torch.Tensor) -> torch.Tensor:
    """The worse of 10⁻⁵ and of sinh(x) / cosh(x)."""
    return torch.maximum(torch.full_like(y, 1e-5), (2 * _exp_error(_operand(site)) + 2.5 * _ULP) * y.abs())


def _logistic(site: Site, y: torch.Tensor) -> torch.Tensor:
    """1 / (1 + exp(-x)), and a product."""
    return (_exp_error(_operand(site)) + 5 * _ULP) * y.abs()


def _softmax(site: Site, y: torch.Tensor) -> torch.Tensor:
    """exp(x - max) over the sum of such."""
    x = _operand(site)
    return (2 * _exp_error(x.amax() - x.amin()) + 5 * _ULP) * y.abs()


def _log_softmax(site: Site, y: torch.Tensor) -> torch.Tensor:
    """x - max, less the logarithm of such a sum."""
    x = _operand(site)
    return torch.full_like(y, 2.0**-21) + _exp_error(x.amax() - x.amin()) + 3 * _ULP * y.abs()


_WGSL: Final[Mapping[str, _Promise]] = {
    "sin": _periodic, "cos": _periodic, "tan": _tan, "sinc": _sinc, "atan": _ulps(4096), "atan2": _ulps(4096),
    "asin": _absolute(6.81e-5), "acos": _absolute(6.77e-5), "asinh": _asinh, "acosh": _asinh, "atanh": _atanh,
    "exp": _exp, "exp2": _exp, "expm1": _exp_like, "elu": _exp_like, "selu": _exp_like, "celu": _exp_like,
    "sinh": _exp_like, "cosh": _exp_like, "softplus": _exp_like, "pow": _pow,
    "log": _log, "log2": _log, "log1p": _log, "log10": _log10, "tanh": _tanh,
    "sigmoid": _logistic, "silu": _logistic, "softmax": _softmax, "_softmax": _softmax,
    "log_softmax": _log_softmax, "_log_softmax": _log_softmax,
    "div": _ulps(2.5), "reciprocal": _ulps(2.5), "rsqrt": _ulps(2.0), "sqrt": _ulps(4.5),
    "polar": _polar,
}  # fmt: skip
_SPIRV: Final[Mapping[str, _Promise]] = {**_WGSL, "asin": _ulps(4096), "acos": _ulps(4096), "tanh": _exp_like}


def _opencl_exp_like(site: Site, y: torch.Tensor) -> torch.Tensor:
    """1 / (1 + exp(-x)), and a product: 3 ULP of exp, 2.5 of the quotient, and three roundings."""
    return 7 * _ULP * y.abs()


def _opencl_softmax(site: Site, y: torch.Tensor) -> torch.Tensor:
    """exp(x - max) over the sum of such; the difference is rounded."""
    x = _operand(site)
    return (2 * (3 + (x.amax() - x.amin()) / 2) + 3.5) * _ULP * y.abs()


def _opencl_elu(site: Site, y: torch.Tensor) -> torch.Tensor:
    """Expressions of expm1(x), or of log1p(exp(x)), by two factors at most."""
    return 6 * _ULP * (1 + y.abs()) if site.call.packet == "softplus" else 5 * _ULP * y.abs()


_OPENCL: Final[Mapping[str, _Promise]] = {
    "sin": _ulps(4), "cos": _ulps(4), "tan": _ulps(5), "asin": _ulps(4), "acos": _ulps(4), "atan": _ulps(5),
    "atan2": _ulps(6), "sinh": _ulps(4), "cosh": _ulps(4), "tanh": _ulps(5), "asinh": _ulps(4), "acosh": _ulps(4),
    "atanh": _ulps(5), "exp": _ulps(3), "exp2": _ulps(3), "expm1": _ulps(3), "log": _ulps(3), "log2": _ulps(3),
    "log10": _ulps(3), "log1p": _ulps(2), "pow": _ulps(16), "hypot": _ulps(4), "erf": _ulps(16), "erfc": _ulps(16),
    "div": _ulps(2.5), "reciprocal": _ulps(2.5), "sqrt": _ulps(3), "rsqrt": _ulps(2), "sigmoid": _opencl_exp_like,
    "silu": _opencl_exp_like, "softmax": _opencl_softmax, "_softmax": _opencl_softmax, "elu": _opencl_elu,
    "selu": _opencl_elu, "celu": _opencl_elu, "softplus": _opencl_elu, "polar": _ulps(5),
}  # fmt: skip
_TABLES: Final[Mapping[str, Mapping[str, _Promise]]] = {
    "WGSL": _WGSL, "SPIR-V": _SPIRV, "OpenCL C": _OPENCL,
}  # fmt: skip
