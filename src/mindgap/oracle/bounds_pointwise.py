"""Elementwise operators, and the ones that only move or choose data."""

from __future__ import annotations

import torch

from mindgap.aten.tensors import TORCH_DTYPES
from mindgap.oracle.bounds import Bound, Site, exact, relative, rule

# Those that move data or cast are exact by their traits; these choose, fill, or round to steps as well.
rule(
    "as_strided", "view_as_real", "view_as_complex", "real", "imag", "conj", "_conj", "as_strided_copy", "to_dense",
    "combinations", "cartesian_prod", "masked_fill", "masked_scatter", "index_copy", "index_fill",
    "as_strided_scatter", "fill", "zero", "constant_pad_nd", "pad", "_pad_circular", "max_unpool2d", "max_unpool3d",
    "unique_consecutive", "nonzero", "one_hot", "complex", "_conj_physical", "_unique2", "resize", "resize_as",
    "relu6", "clamp", "clip", "clamp_min", "clamp_max", "hardtanh", "sign", "floor", "ceil", "trunc", "fix",
    "argsort", "mode", "median", "nanmedian", "threshold", "nan_to_num", "copysign", "heaviside", "hardshrink",
    "signbit", "frac", "nextafter", "frexp", "zeros", "ones", "full", "empty", "zeros_like", "ones_like",
    "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty", "empty_strided",
    "new_empty_strided", "eye", "scalar_tensor", "empty_permuted", "dropout", "feature_dropout", "alpha_dropout",
    "native_dropout", "isnan", "isinf", "isfinite", "conj_physical", "_efficientzerotensor",
)(exact)  # fmt: skip

_ONE = ("add", "sub", "subtract", "rsub", "mul", "multiply", "square", "leaky_relu", "prelu", "rrelu",
        "_prelu_kernel", "softshrink", "deg2rad", "rad2deg", "sqrt")  # fmt: skip


@rule("abs", "absolute", "sgn")
def magnitudes(site: Site) -> list[Bound | None]:
    """Exact for real numbers, a square root for complex ones."""
    return relative(site, 4.0) if _complex(site.args[0]) else exact(site)


@rule(*_ONE)
def one_rounding(site: Site) -> list[Bound | None]:
    """u·|y|, and where an operand is scaled by `alpha` the rounding of both, which may be in the declared dtype."""
    alpha = site.kwargs.get("alpha", 1)
    # The slopes of `prelu` are one per channel: tensors, which are not rounded.
    other = site.arg(1, "other", 0.0) if site.call.packet != "prelu" else 0.0
    kept = 1.0 + (site.u_out / site.u if site.u_out > site.u else 0.0)
    scaled = (kept + coarse_scalar(site, alpha)) * abs(alpha) * magnitude(other) if alpha not in (1, -1) else 0.0
    return relative(site, 1.0, scaled + coarse_scalar(site, other) * magnitude(other))


@rule("reciprocal", "rsqrt", "arange", "linspace", "range")
def two_roundings(site: Site) -> list[Bound | None]:
    """2u·|y|. Ranges: start + i·step."""
    start = site.arg(0, "start", 0.0) if site.call.packet in ("arange", "linspace", "range") else 0.0
    extra = magnitude(start) * 2
    if site.call.packet in ("linspace", "range"):
        extra = extra + 2 * magnitude(site.arg(1, "end", 0.0))
    return relative(site, 2.0, extra)


@rule("addcmul", "addcdiv", "lerp")
def products_added(site: Site) -> list[Bound | None]:
    """The product is rounded before it is added, twice at most: u·(|y| + 3·|product|)."""
    base = site.args[0]
    product = site.results[0] - base
    found = relative(site, 1.0, 3 * product.abs() + (2 * base.abs() if site.call.packet == "lerp" else 0.0))
    if site.call.packet == "addcdiv" and found[0] is not None:
        # A subnormal numerator has lost its last bits before it is divided.
        vanished = 4 / site.largest / site.args[2].abs().clamp_min(4 * site.u / site.largest)
        return [Bound(found[0].typical + vanished * site.u, found[0].hard + vanished * site.u)]
    return found


_TRANSCENDENTAL = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "asin", "acos", "atan", "sinh", "cosh",
                   "asinh", "acosh", "atanh", "atan2", "arctan2", "hypot", "arcsin", "arccos", "arctan",
                   "angle", "sinc", "logaddexp", "logaddexp2", "xlogy", "special_xlog1py", "logit")  # fmt: skip


@rule(*_TRANSCENDENTAL)
def transcendental(site: Site) -> list[Bound | None]:
    """2.5u·|y|; sums of two logarithms also carry the larger operand."""
    if site.call.packet in ("logaddexp", "logaddexp2"):
        return relative(site, 4.0, torch.maximum(site.args[0].abs(), site.args[1].abs()))
    if site.call.packet == "logit":
        # x/(1 - x) near 1, rounded to the declared dtype before the logarithm.
        return relative(site, 4.0, 1.0 + 2 * max(site.u, site.u_out) / site.u)
    return relative(site, 2.5, 1.0 if site.call.packet == "sinc" else 0.0)


@rule("sin", "cos", "tan")
def periodic(site: Site) -> list[Bound | None]:
    """2.5u·|y| + u·|x·y'|/4: the last bits of a large argument, where they are lost, move the result."""
    x, y = site.args[0], site.results[0]
    slope = {"sin": torch.cos, "cos": torch.sin, "tan": lambda t: 1 + torch.tan(t) ** 2}[site.call.packet](x)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] # torch functions are untyped
    return relative(site, 2.5, (x * slope).abs() / 4 if y.shape == x.shape else 0.0)


@rule("pow", "float_power")
def power(site: Site) -> list[Bound | None]:
    """exp(e·ln x): 2.5u·|y| + u·|e·ln x·y|."""
    base, exponent = site.args[0], site.args[1]
    y = site.results[0]
    logarithm = (
        torch.log(torch.as_tensor(base, dtype=torch.float64).abs()) if not _complex(base) else torch.log(base).abs()
    )
    swing = torch.nan_to_num((torch.as_tensor(exponent) * logarithm).abs(), nan=0.0, posinf=0.0)
    coarse = coarse_scalar(site, exponent)
    if not isinstance(base, torch.Tensor):
        coarse = coarse_scalar(site, base) * torch.nan_to_num(exponent.abs(), nan=0.0, posinf=0.0)
        return relative(site, 2.5, (swing + coarse) * y.abs())
    return relative(site, 2.5, (1 + coarse) * swing * y.abs())


@rule("erf", "erfc", "erfinv", "tanh", "sigmoid", "silu", "hardswish", "hardsigmoid", "special_expit",
      "lgamma", "digamma", "special_erf", "special_ndtr", "i0", "special_erfcx",
      "glu")  # fmt: skip
def smooth(site: Site) -> list[Bound | None]:
    """2.5u·|y|, and one rounding of an intermediate of size 1 for those that subtract from it.

    4u·|y| for functions that are pieced together or recur, 16u·|y| for logistic ones: vectorised libraries approximate
    them to an absolute error of u/4, which is 200 ulps at -7. x·(x/6 + ½), as ONNX defines hardswish, cancels at -3.
    """
    extra = {"erfc": 1.0, "lgamma": 3.0, "digamma": 4.0, "special_ndtr": 1.0, "hardsigmoid": 0.5}
    more = extra.get(site.call.packet, 0.0)
    if site.call.packet == "special_ndtr":
        # Composed of smaller operators, each of which rounds to the declared dtype.
        more = max(site.u, site.u_out) / site.u
    if site.call.packet == "hardswish":
        return relative(site, 2.5, torch.where(site.args[0].abs() <= 3, site.args[0].abs() / 2, 0.0))
    if site.call.packet in ("sigmoid", "special_expit", "silu"):
        return relative(site, 16.0)
    pieced = site.call.packet in ("lgamma", "digamma", "erfinv", "special_erfcx", "special_ndtr", "erfc")
    return relative(site, 4.0 if pieced else 2.5, more)


@rule("gelu", "mish")
def gated(site: Site) -> list[Bound | None]:
    """x·Φ(x): the gate is a sum that cancels for negative x, so its error is u, and u·|x| after the product."""
    return relative(site, 8.0, site.args[0].abs())


@rule("softplus", "log_sigmoid", "log_sigmoid_forward")
def soft(site: Site) -> list[Bound | None]:
    """log(1 + eˣ) written out rounds the 1 + eˣ: u absolute, once more."""
    return relative(site, 3.0, 1.0)


@rule("elu", "selu", "celu")
def exponential_linear(site: Site) -> list[Bound | None]:
    """α·(eˣ - 1) written out cancels near 0: u·α/2 absolute."""
    alpha = site.arg(1, "alpha", 1.0) if site.call.packet != "selu" else 1.76
    return relative(site, 2.0, abs(float(alpha)) / 2)


def coarse_scalar(site: Site, operand: object) -> float:
    """Error of a scalar operand in units of u·|scalar|: it may be rounded to the narrow dtype it is combined with."""
    narrow = isinstance(operand, float) and site.u_out > site.u
    rounds = narrow and float(torch.tensor(operand).to(TORCH_DTYPES[_declared(site)])) != operand
    return site.u_out / site.u if rounds else 0.0


def _declared(site: Site) -> str:
    return next((s.dtype for s in site.call.node.outputs if s is not None), "float32")


def magnitude(operand: object) -> torch.Tensor | float:
    """|operand| of a tensor or a number, 0 for anything else."""
    if isinstance(operand, torch.Tensor):
        return operand.abs() if operand.dtype != torch.bool else operand.to(torch.float64)
    return abs(operand) if isinstance(operand, (int, float, complex)) else 0.0


def _complex(operand: object) -> bool:
    return isinstance(operand, complex) or (isinstance(operand, torch.Tensor) and operand.is_complex())
