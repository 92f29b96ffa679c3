"""Runs the program in float64, without rounding to the declared dtypes."""

# pyright: basic
# (torch is typed in parts only)

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from script.parts.tensors import copied, recast, tensors_in, wide_dtype, widened, with_tensors

#: Operators whose meaning is in the bits of the declared dtype: run in that dtype.
BITWISE = ("aten.view.dtype", "aten.nextafter", "aten.frexp", "aten._scaled_mm", "aten._weight_int")
#: Operators whose float scalar sets a size.
SIZED = ("upsample", "interpolate")


@dataclass
class Call:
    """One operator call of the run in the declared dtypes. `fresh`: which results share no memory with an operand."""

    operands: list[torch.dtype]
    results: list[torch.dtype]
    fresh: list[bool]


@dataclass
class Watched:
    """All calls of a run, and copies of the operands of one of them."""

    calls: list[Call] = field(default_factory=list)
    kept: list[torch.Tensor] = field(default_factory=list)


class Watch(TorchFunctionMode):
    """Records the operator calls of a run. `keep`: the number of the call whose operands are copied."""

    def __init__(self, keep: int | None = None) -> None:
        super().__init__()
        self.keep = keep
        self.seen = Watched()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        operands = list(tensors_in([args, kwargs]))
        if len(self.seen.calls) == self.keep:
            self.seen.kept = [copied(operand.detach()) for operand in operands]
        result = func(*args, **kwargs)
        results = list(tensors_in(result))
        owned = {memory_id(operand) for operand in operands}
        self.seen.calls.append(
            Call([t.dtype for t in operands], [t.dtype for t in results], [memory_id(t) not in owned for t in results])
        )
        return result


class Float64(TorchFunctionMode):
    """Runs operators on float64 in place of every float dtype, complex128 in place of every complex one.

    `calls`: the same calls in their declared dtypes. `narrow`: numbers of the calls that ran in the declared dtypes
    because the operator has no float64 form, with the reason.
    """

    def __init__(self, calls: Sequence[Call]) -> None:
        super().__init__()
        self.calls = calls
        self.number = -1
        self.narrow: dict[int, str] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        self.number += 1
        call = self.calls[self.number]
        if str(func).startswith(BITWISE):
            return self.in_declared(func, args, kwargs, call, "depends on the bits of its dtype")
        try:
            wide = self.wide_argument(func, call)
            named = with_defaults(func, args, with_tensors(kwargs, wide), call)
            result = func(*with_tensors(list(args), wide), **named)
        except Exception as error:
            return self.in_declared(func, args, kwargs, call, f"{type(error).__name__}: {first_line(error)}")
        return self.separated(result, args, kwargs, call)

    def wide_argument(self, func: Any, call: Call) -> Any:
        """Widens an argument: dtypes to 64 bits, float scalars to the value that a declared-dtype kernel uses."""
        reals = [d for d in (*call.results, *call.operands) if d.is_floating_point or d.is_complex]
        double = not call.operands or not reals or any(wide_dtype(d) == d for d in reals)
        softmax = str(func).startswith(("aten._softmax.", "aten._log_softmax."))

        def change(value: Any) -> Any:
            if isinstance(value, torch.dtype):
                return wide_dtype(value)
            if value is True and softmax:
                return False  # half_to_float: for half precision only
            if isinstance(value, float) and not double and not any(word in str(func) for word in SIZED):
                return as_float32(value)
            if isinstance(value, torch.Tensor) and value.dtype != wide_dtype(value.dtype):
                return widened(value)
            return value

        return change

    def separated(self, result: Any, args: Any, kwargs: Any, call: Call) -> Any:
        """Copies a result where the declared call made a copy: float64 to float64 returns its operand."""
        owned = {memory_id(operand) for operand in tensors_in([args, kwargs])}
        fresh = iter(call.fresh)

        def change(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            return copied(value) if next(fresh, False) and memory_id(value) in owned else value

        return with_tensors(result, change) if isinstance(result, (list, tuple)) else change(result)

    def in_declared(self, func: Any, args: Any, kwargs: Any, call: Call, why: str) -> Any:
        """Makes the call in the declared dtypes; widens its results and the operands that it wrote to."""
        self.narrow[self.number] = f"{func}: {why}"
        dtypes = iter(call.operands)
        pairs: list[tuple[torch.Tensor, torch.Tensor]] = []

        def change(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            narrow = recast(value, next(dtypes))
            pairs.append((value, narrow))
            return narrow

        with default_dtype(torch.float32):
            result = func(*with_tensors(list(args), change), **with_tensors(kwargs, change))
        if any(argument.alias_info and argument.alias_info.is_write for argument in func._schema.arguments):
            for value, narrow in pairs:
                value.copy_(narrow)
            originals = {id(narrow): value for value, narrow in pairs}
            return with_tensors([result], lambda made: originals.get(id(made), made))[0]
        return with_tensors([result], lambda made: widened(made) if isinstance(made, torch.Tensor) else made)[0]


class default_dtype:
    """Sets the default dtype within a block."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def __enter__(self) -> None:
        self.before = torch.get_default_dtype()
        torch.set_default_dtype(self.dtype)

    def __exit__(self, *_: object) -> None:
        torch.set_default_dtype(self.before)


def with_defaults(func: Any, args: Any, kwargs: dict[str, Any], call: Call) -> dict[str, Any]:
    """Fills in arguments whose default depends on the dtype, with the declared dtype's default."""
    reals = [dtype for dtype in call.operands if dtype.is_floating_point]
    defaults: dict[str, float] = {}
    if reals and str(func).startswith("aten.rms_norm"):
        narrow = torch.finfo(reals[0]).bits <= 16
        defaults = {"eps": torch.finfo(torch.float32 if narrow else reals[0]).eps}
    elif reals and str(func).startswith("aten.nan_to_num"):
        defaults = {"posinf": torch.finfo(reals[0]).max, "neginf": torch.finfo(reals[0]).min}
    names = [argument.name for argument in func._schema.arguments]
    given = {names[place] for place, value in enumerate(args) if value is not None}
    free = {name: value for name, value in defaults.items() if name not in given and names.index(name) >= len(args)}
    return {**free, **{name: value for name, value in kwargs.items() if value is not None or name not in free}}


def as_float32(value: float) -> float:
    """Returns the scalar that a float32 kernel uses."""
    try:
        return struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def memory_id(tensor: torch.Tensor) -> int:
    """Returns a number that is equal for tensors that share memory."""
    return tensor.untyped_storage()._cdata


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message."""
    return next(iter(str(error).splitlines()), "")[:300]
