"""Generates calls of a function from its signature: each required parameter gets a value by the kind of its name.

Runs in workers, in other environments: needs numpy alone. A generated call is a guess. The caller runs it on the
source, and keeps what runs.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

import numpy as np

from mindgap.graph import Array

#: Calls of a function that are kept.
MOST_CALLS: Final = 4


@dataclass(frozen=True, slots=True)
class ArrayForm:
    """Dtype, shape and range of the arrays of a generated call. `kind`: `unit` values lie in 0.1 to 0.9, `normal` ones
    are standard normal, `definite` ones are symmetric positive definite matrices."""

    dtype: str
    shape: tuple[int, ...]
    kind: str = "normal"


#: Tried in this order. Images are [batch, height, width, channels].
FORMS: Final = (
    ArrayForm("float32", (3, 4), "unit"),
    ArrayForm("float32", (64, 64), "definite"),
    ArrayForm("float32", (16,)),
    ArrayForm("float32", (2, 8, 8, 3)),
    ArrayForm("int32", (3, 4)),
    ArrayForm("float32", (2, 3, 4)),
    ArrayForm("bfloat16", (3, 4)),
    ArrayForm("bool", (3, 4)),
    ArrayForm("complex64", (4, 4)),
    ArrayForm("float32", ()),
)


class Drawn:
    """Draws the values of one generated call. `make`: makes the framework's array of a numpy array and the name of a
    dtype. `key`: the framework's random key."""

    def __init__(self, form: ArrayForm, seed: str, make: Callable[[Array, str], Any], key: Any) -> None:
        self.form, self.key, self._make = form, key, make
        self.rng = np.random.default_rng(zlib.crc32(seed.encode()))

    def values(self, shape: Sequence[int] | None = None) -> Any:
        """Makes an array of the form, or of another shape."""
        drawn = draw_array(self.rng, self.form, tuple(self.form.shape if shape is None else shape))
        return self._make(drawn, self.form.dtype)

    def array(self, given: Array) -> Any:
        return self._make(given, str(given.dtype))

    def whole(self, high: int, shape: Sequence[int]) -> Any:
        """Makes an int32 array of values from 0 to `high` - 1, in rising order."""
        return self.array(np.sort(self.rng.integers(0, high, tuple(shape))).astype(np.int32))

    @property
    def rank(self) -> int:
        return len(self.form.shape)


def draw_array(rng: np.random.Generator, form: ArrayForm, shape: tuple[int, ...]) -> Array:
    """Draws an array. bfloat16 comes as float32, for the framework to convert."""
    if form.dtype == "int32":
        return rng.integers(1, 9, shape).astype(np.int32)
    if form.dtype == "bool":
        return np.asarray(rng.integers(0, 2, shape), bool)
    if form.dtype == "complex64":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)
    if form.kind == "unit":
        return np.asarray(rng.uniform(0.1, 0.9, shape), np.float32)
    if form.kind == "definite" and len(shape) > 1 and shape[-1] == shape[-2]:
        root = rng.standard_normal(shape)
        product = root @ np.swapaxes(root, -1, -2) / shape[-1]
        return (product + np.eye(shape[-1])).astype(np.float32)
    return np.asarray(rng.standard_normal(shape), np.float32)


def _rows(draw: Drawn) -> int:
    return draw.form.shape[0] if draw.rank else 1


#: What a parameter gets, by its name. Names that are not here get an array.
KINDS: Final[Mapping[str, Callable[[Drawn], Any]]] = {
    **dict.fromkeys(("shape", "newshape", "new_shape", "dims", "sizes", "output_shape"), lambda d: d.form.shape),
    **dict.fromkeys(("axis", "dim", "dimension", "axis1", "source", "begin_axis", "offset", "k", "low", "kth"),
                    lambda d: 0),
    **dict.fromkeys(("axis2", "destination", "n", "shift", "shifts", "repeats", "ord", "deg", "groups", "stride",
                     "rate_", "iterations", "order"), lambda d: 1),
    **dict.fromkeys(("axes", "dimensions", "reduction_indices"), lambda d: (0,)),
    **dict.fromkeys(("num", "N", "M", "depth", "num_classes", "num_segments", "length", "num_rows",
                     "total_repeat_length", "maxval", "high", "stop", "limit", "num_samples", "nseg"), lambda d: 4),
    **dict.fromkeys(("minval", "begin"), lambda d: 0),
    "start": lambda d: 1,
    **dict.fromkeys(("dtype", "new_dtype", "out_type", "Tout"), lambda d: "float32"),
    **dict.fromkeys(("key", "seed"), lambda d: d.key),
    **dict.fromkeys(("condition", "pred", "mask", "which"),
                    lambda d: d.array(d.rng.integers(0, 2, d.form.shape).astype(bool))),
    **dict.fromkeys(("values", "tensors", "arrays", "tup", "seq", "operands", "inputs_list"),
                    lambda d: [d.values(), d.values()]),
    **dict.fromkeys(("indices", "index", "ids", "i"), lambda d: d.whole(max(1, _rows(d)), (2,))),
    **dict.fromkeys(("segment_ids",), lambda d: d.whole(max(1, min(3, _rows(d))), (_rows(d),))),
    **dict.fromkeys(("perm", "permutation"), lambda d: tuple(reversed(range(d.rank)))),
    **dict.fromkeys(("pad_width", "paddings"), lambda d: [[1, 1]] * d.rank),
    **dict.fromkeys(("multiples", "reps"), lambda d: [2] * d.rank),
    **dict.fromkeys(("broadcast_dimensions",), lambda d: tuple(range(d.rank))),
    **dict.fromkeys(("start_indices", "begin_indices"), lambda d: [0] * d.rank),
    **dict.fromkeys(("limit_indices", "slice_sizes", "size"), lambda d: [min(2, n) for n in d.form.shape]),
    **dict.fromkeys(("padding",), lambda d: "SAME"),
    **dict.fromkeys(("strides", "window_strides", "ksize", "window_shape"), lambda d: (1, 2, 2, 1)[: max(1, d.rank)]),
    **dict.fromkeys(("rate", "p", "epsilon", "alpha", "delta", "variance_epsilon", "fill_value", "gain"),
                    lambda d: 0.5),
    **dict.fromkeys(("image", "images"), lambda d: d.values((2, 8, 8, 3))),
    **dict.fromkeys(("filters", "filter", "kernel"), lambda d: d.values((3, 3, 3, 5))),
    **dict.fromkeys(("bins", "sorted_sequence", "xp", "fp"),
                    lambda d: d.array(np.linspace(0.0, 1.0, 5, dtype=np.float32))),
    **dict.fromkeys(("equation", "subscripts"), lambda d: "ij,ij->ij"),
    **dict.fromkeys(("f", "fun", "func", "fn", "function", "body"), lambda d: _doubled),
    **dict.fromkeys(("name", "message"), lambda d: "name"),
    **dict.fromkeys(("clip_value_min", "a_min", "min"), lambda d: 0),
    **dict.fromkeys(("clip_value_max", "a_max", "max", "clip_norm"), lambda d: 2),
}  # fmt: skip


def _doubled(x: Any, *rest: Any) -> Any:
    """What functions get that take a function."""
    return x + x


def generated_call(function: Callable[..., Any], draw: Drawn) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns arguments for the required parameters. Raises `ValueError` for a function without a signature."""
    if operands := getattr(function, "nin", 0):  # a universal function, whose signature tells less
        return tuple(draw.values() for _ in range(operands)), {}
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise ValueError("it has no signature") from None
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for each in parameters:
        if each.kind is each.VAR_POSITIONAL and not args:
            args += [draw.values(), draw.values()]
        if each.default is not each.empty or each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            continue
        value = KINDS.get(each.name, Drawn.values)(draw)
        if each.kind is each.KEYWORD_ONLY:
            kwargs[each.name] = value
        else:
            args.append(value)
    return tuple(args), kwargs


@dataclass(frozen=True)
class FunctionCall:
    """A call as a function of its arrays. `label`: its arguments as text. `bind`: returns the function itself with
    arrays in place: to place them at each call takes more time than a small function does."""

    function: Callable[..., Any]
    arrays: tuple[Any, ...]
    label: str
    bind: Callable[[Sequence[Any]], partial[Any]]

    def __call__(self) -> Any:
        return self.function(*self.arrays)

    def bare(self) -> partial[Any]:
        return self.bind(self.arrays)


def call_of(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], is_array: Callable[[Any], bool]
) -> FunctionCall:
    """Takes arguments apart: arrays become arguments of the call, also those inside lists, and the rest is kept."""
    arrays: list[Any] = []

    def taken(value: Any) -> Any:
        if is_array(value):
            arrays.append(value)
            return _Place(len(arrays) - 1)
        return _mapped(taken, value)

    kept, named = [taken(each) for each in args], {name: taken(each) for name, each in kwargs.items()}

    def filled(value: Any, given: Sequence[Any]) -> Any:
        if isinstance(value, _Place):
            return given[value.index]
        return _mapped(lambda each: filled(each, given), value)

    def bound(given: Sequence[Any]) -> partial[Any]:
        return partial(
            function, *(filled(each, given) for each in kept), **{k: filled(v, given) for k, v in named.items()}
        )

    def called(*given: Any) -> Any:
        return bound(given)()

    words = [_text(each, is_array) for each in args] + [f"{k}={_text(v, is_array)}" for k, v in kwargs.items()]
    return FunctionCall(called, tuple(arrays), ", ".join(words), bound)


def _mapped(change: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, list):
        return [change(each) for each in cast("list[Any]", value)]
    if isinstance(value, tuple):
        return tuple(change(each) for each in cast("tuple[Any, ...]", value))
    return value


@dataclass(frozen=True, slots=True)
class _Place:
    index: int


def _text(value: Any, is_array: Callable[[Any], bool]) -> str:
    """An argument as text: `float32[3,4]`, `axis=0`, `[float32[3], float32[3]]`."""
    if is_array(value):
        dtype = getattr(value.dtype, "name", value.dtype)
        return f"{dtype}[{','.join(map(str, value.shape))}]"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_text(each, is_array) for each in cast('list[Any]', value))}]"
    return getattr(value, "__name__", None) or repr(value)
