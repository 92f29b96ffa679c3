"""Captures decisions by values along the path that the arguments take.

`torch.cond` and `while_loop` decide by tensors, and so may Python code (`if x.sum() > 0`, `.item()`), on request. Each
value that decides is computed while the program is recorded, and noted (`ValueTable`). In the graph there is the branch
that was taken, and each iteration after the other. `scan` and `map` are written out, and decide nothing.
"""

from __future__ import annotations

import functools
import math
import numbers
import operator
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

from mindgap.aten.torch_private.higher_order import replaced_higher_order_operators
from mindgap.graph_capture.errors import CaptureError
from mindgap.graph_capture.origin import current_line
from mindgap.graph_capture.value_table import ValueTable

#: Iterations of one loop that a graph holds, at most.
_ITERATIONS: Final = 1000
#: Makes the truth value of a tensor of one element, by which the operator of this name decides.
_Decide = Callable[[str, Any], bool]


@contextmanager
def written_out(decide: _Decide) -> Generator[None]:
    """Takes `cond` and `while_loop` apart by what `decide` makes of conditions, and `scan` and `map` into steps."""

    def cond(predicate: Any, true: Callable[..., Any], false: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
        return (true if decide("torch.cond", predicate) else false)(*operands)

    def while_loop(
        condition: Callable[..., Any], body: Callable[..., Any], carried: Sequence[Any], more: Sequence[Any] = (),
        **_mutated: str,
    ) -> Any:  # fmt: skip
        count, line = 0, current_line()
        while decide("while_loop", condition(*carried, *more)):
            if count == _ITERATIONS:
                raise CaptureError(f"while_loop runs more than {_ITERATIONS} times; capture its body (--inside)", line)
            carried, count = body(*carried, *more), count + 1
        return tuple(carried)

    replacements: dict[str, Callable[..., Any]] = {
        "cond": cond, "while_loop": while_loop, "scan": _scan, "map_impl": _map,
    }  # fmt: skip
    with replaced_higher_order_operators(replacements.get):
        yield


@contextmanager
def followed(values: ValueTable, path_taken: bool) -> Generator[None]:
    """Records within the path that values decide: those of `cond` and `while_loop`, with `path_taken` all of them."""

    def decide(name: str, condition: Any) -> bool:
        before = values.follows, values.construct
        values.follows, values.construct = True, name
        try:
            return bool(condition)
        finally:
            values.follows, values.construct = before

    values.follows = path_taken
    with written_out(decide):
        if not path_taken:
            yield
            return
        with _Reads(values):
            yield


@contextmanager
def answered(read: Callable[[], Any]) -> Generator[None]:
    """Replays within what was recorded by `followed`. `read`: returns the number that is read next."""

    def listed(shape: Sequence[int]) -> Any:
        return [listed(shape[1:]) for _ in range(shape[0])] if shape else read()

    def given(func: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        # A fake tensor reads each element, a real one reads its memory.
        return listed(args[0].shape) if func is _TOLIST else func(*args, **(kwargs or {}))

    with written_out(lambda _, condition: bool(condition)), _Functions(given):
        yield


# PyTorch 2.14 names the operands that a step writes to, which it does here as well (`mutated_arg_indices`).
def _scan(
    combine: Callable[..., Any], init: Sequence[Any], xs: Sequence[Any], more: Sequence[Any] = (), **_mutated: str
) -> Any:
    """Runs each step on the elements of the first dimension; stacks what steps give besides the state."""
    carried, collected = list(init), list[list[Any]]()
    for index in range(_steps("scan", xs)):
        results = list(combine(*carried, *(x.select(0, index) for x in xs), *more))
        carried = results[: len(carried)]
        collected.append(results[len(carried) :])
    return (*carried, *(torch.stack(list(each)) for each in zip(*collected, strict=True)))


def _map(function: Callable[..., Any], xs: Sequence[Any], more: Sequence[Any] = (), **_mutated: str) -> Any:
    results = [function(*(x.select(0, index) for x in xs), *more) for index in range(_steps("map", xs))]
    if isinstance(results[0], torch.Tensor):
        return torch.stack(results)
    return tuple(torch.stack(list(each)) for each in zip(*results, strict=True))


def _steps(name: str, xs: Sequence[Any]) -> int:
    if not 0 < xs[0].shape[0] <= _ITERATIONS:
        raise CaptureError(f"{name} runs {xs[0].shape[0]} times; a graph holds 1 to {_ITERATIONS}", current_line())
    return xs[0].shape[0]


_METHODS: Final[Any] = torch.Tensor
_TOLIST: Final = _METHODS.tolist


class _Functions(TorchFunctionMode):
    """Calls a function in place of each function of PyTorch: (function, arguments, keyword arguments)."""

    def __init__(self, call: Callable[[Any, tuple[Any, ...], Any], Any]) -> None:
        super().__init__()
        self._call = call

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        return self._call(func, args, kwargs)


class _Reads(_Functions):
    """Records how Python code reads tensors, so that what it decides by is a value of the graph."""

    def __init__(self, values: ValueTable) -> None:
        super().__init__(self._read)
        self._values = values

    def _read(self, func: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        if func in (_METHODS.__bool__, torch.is_nonzero) and args[0].dtype != torch.bool and args[0].numel() == 1:
            return bool(args[0] != 0)
        if func is _METHODS.__int__ and args[0].is_floating_point():
            return int(args[0].to(torch.int64))
        result = func(*args, **(kwargs or {}))
        if func is _METHODS.item and type(result) is float and self._values.is_variable(args[0]):
            return ReadFloat(result, lambda: args[0], self._values)
        return result


class ReadFloat(float):
    """A float that Python code read from a tensor. What its comparisons and roundings decide is recorded.

    Sums, products and quotients with numbers are such floats again. Any other use sees a plain float.
    """

    _of: Callable[[], torch.Tensor]
    _values: ValueTable

    def __new__(cls, value: float, of: Callable[[], torch.Tensor], values: ValueTable) -> ReadFloat:
        """Makes the float. `of`: makes the tensor of one element that it was read from, in the recording."""
        made = super().__new__(cls, value)
        made._of, made._values = functools.cache(of), values
        return made

    def _compared(self, compare: Callable[[Any, Any], Any], other: Any) -> Any:
        plain = compare(float(self), other)
        if not isinstance(plain, bool) or not isinstance(other, numbers.Number):
            return plain
        # In the tensor's dtype where that agrees with Python, which compares in float64.
        for dtype in (self._of().dtype, torch.float64):
            right = other._of().to(dtype) if isinstance(other, ReadFloat) else other
            result = compare(self._of().to(dtype), right)
            if self._values.truth(result) == plain:
                self._values.decide(result, "branch")
                return plain
        raise CaptureError(
            "a number that was read from a tensor compares otherwise than the tensor does", current_line()
        )

    def _rounded(self, plain: int, function: Callable[[torch.Tensor], torch.Tensor]) -> int:
        self._values.decide(function(self._of()).to(torch.int64), "number")
        return plain

    def _with(self, compute: Callable[[Any, Any], Any], other: Any) -> Any:
        plain = compute(float(self), other)
        if type(plain) is not float or not isinstance(other, (int, float)):
            return plain
        return ReadFloat(
            plain, lambda: compute(self._of(), other._of() if isinstance(other, ReadFloat) else other), self._values
        )

    def __lt__(self, other: Any) -> Any:
        return self._compared(operator.lt, other)

    def __le__(self, other: Any) -> Any:
        return self._compared(operator.le, other)

    def __gt__(self, other: Any) -> Any:
        return self._compared(operator.gt, other)

    def __ge__(self, other: Any) -> Any:
        return self._compared(operator.ge, other)

    def __eq__(self, other: Any) -> Any:
        return self._compared(operator.eq, other)

    def __ne__(self, other: Any) -> Any:
        return self._compared(operator.ne, other)

    __hash__ = float.__hash__

    def __bool__(self) -> bool:
        return self._compared(operator.ne, 0.0)

    def __int__(self) -> int:
        return self._rounded(int(float(self)), torch.trunc)

    def __trunc__(self) -> int:
        return int(self)

    def __floor__(self) -> int:
        return self._rounded(math.floor(float(self)), torch.floor)

    def __ceil__(self) -> int:
        return self._rounded(math.ceil(float(self)), torch.ceil)

    def __round__(self, digits: Any = None) -> Any:
        return round(float(self), digits) if digits is not None else self._rounded(round(float(self)), torch.round)

    def __add__(self, other: Any) -> Any:
        return self._with(operator.add, other)

    def __radd__(self, other: Any) -> Any:
        return self._with(lambda a, b: b + a, other)

    def __sub__(self, other: Any) -> Any:
        return self._with(operator.sub, other)

    def __rsub__(self, other: Any) -> Any:
        return self._with(lambda a, b: b - a, other)

    def __mul__(self, other: Any) -> Any:
        return self._with(operator.mul, other)

    def __rmul__(self, other: Any) -> Any:
        return self._with(lambda a, b: b * a, other)

    def __truediv__(self, other: Any) -> Any:
        return self._with(lambda a, b: a / b, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(lambda a, b: b / a, other)

    def __neg__(self) -> Any:
        return self._with(operator.mul, -1.0)

    def __abs__(self) -> Any:
        return self._with(lambda a, _: abs(a), 0.0)
