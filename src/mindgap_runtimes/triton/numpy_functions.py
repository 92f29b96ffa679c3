"""The mathematical functions and reductions of Triton's kernels, by numpy on the arrays of Triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

import numpy as np

#: Functions of the maker's library -> numpy's. Others of `tl.math` come from there.
_IN_NUMPY: Final = {
    "tanh": "tanh", "sinh": "sinh", "cosh": "cosh", "tan": "tan", "asin": "arcsin", "acos": "arccos", "atan": "arctan",
    "atan2": "arctan2", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "expm1": "expm1", "log1p": "log1p",
    "log10": "log10", "pow": "power", "fmod": "fmod", "hypot": "hypot", "copysign": "copysign", "trunc": "trunc",
    "nearbyint": "rint", "rint": "rint", "nextafter": "nextafter", "exp": "exp", "log": "log", "sin": "sin",
    "cos": "cos", "sqrt": "sqrt", "exp2": "exp2", "log2": "log2", "floor": "floor", "ceil": "ceil", "abs": "abs",
}  # fmt: skip


def _numpy_function(function: Any) -> Callable[..., Any]:
    def call(*operands: Any, **ignored: Any) -> Any:
        tl, make = import_module("triton.language"), import_module("triton.runtime.interpreter").TensorHandle

        tensors = [each for each in operands if isinstance(each, tl.tensor)]
        data = [each.handle.data if isinstance(each, tl.tensor) else each for each in operands]
        with np.errstate(all="ignore"):
            computed = np.asarray(function(*data))
        # The operand that the others are broadcast to.
        like = next(each for each in tensors if each.handle.data.shape == computed.shape)
        return tl.tensor(make(computed.astype(like.handle.data.dtype), like.handle.dtype), like.type)

    return call


def _reduced_by_numpy(function: Any) -> Callable[..., Any]:
    """The interpreter runs a reduction by a function of Inductor's element by element, a millisecond each. numpy's
    maximum and minimum give NaN for NaN as Inductor's do."""

    def call(operand: Any, axis: int) -> Any:
        tl, make = import_module("triton.language"), import_module("triton.runtime.interpreter").TensorHandle

        computed = np.asarray(function(operand.handle.data, axis=int(axis)))
        kind: Any = tl.block_type(operand.dtype, [*computed.shape]) if computed.shape else operand.dtype
        return tl.tensor(make(computed, operand.handle.dtype), kind)

    return call


FUNCTIONS: Final[Mapping[str, Any]] = {name: _numpy_function(getattr(np, each)) for name, each in _IN_NUMPY.items()}
REDUCTIONS: Final[Mapping[str, Any]] = {"max2": _reduced_by_numpy(np.max), "min2": _reduced_by_numpy(np.min)}
