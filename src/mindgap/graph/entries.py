"""Encodes the entries of a content's tables one by one; the layout is described in `wire`.

An entry that names others (a template its strings, a kind of input its spec) contains their entries in place of their
numbers, because the numbers depend on the rest of the graph. Equal entries mean equal objects.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, TypeVar

from mindgap.graph import wire
from mindgap.graph.errors import GraphError
from mindgap.graph.graph import Arg, Device, DType, Input, Layout, MemoryFormat, Node, Ref
from mindgap.graph.recipe import (
    Constant,
    Exceptional,
    Integers,
    Literal,
    Normal,
    Permutation,
    Recipe,
    Stored,
    Uniform,
)
from mindgap.graph.spec import TensorSpec, contiguous_stride
from mindgap.graph.validation import LAYOUTS, MEMORY_FORMATS
from mindgap.graph.wire import put_count, zigzag

#: Role code, entry of the spec, recipe without its seed, and the data of a literal (apart, so that it is not copied).
KindEntry = tuple[bytes, bytes, bytes, bytes]
#: By turns the entry of a string and the bytes that follow its number; the first string is the operator.
TemplateEntry = tuple[bytes, ...]

_Parts = TypeVar("_Parts", bound=tuple[bytes, ...])

DTYPE_CODE: Final = {name: code for code, name in enumerate(wire.DTYPE_CODES)}
ROLE_CODE: Final = {name: code for code, name in enumerate(wire.ROLE_CODES)}
_ROLE_BYTE: Final = {name: bytes([code]) for name, code in ROLE_CODE.items()}
_NAN: Final = struct.pack("<d", math.nan)
#: Entries that are kept to be shared: real graphs repeat a few thousand.
_SHARED: Final = 1 << 14


@lru_cache(_SHARED)
def _shared(entry: _Parts) -> _Parts:
    """Returns the first of equal entries, which saves memory and makes table lookups compare addresses."""
    return entry


@lru_cache(_SHARED)
def string_entry(text: str) -> bytes:
    """Encodes a string. Raises `GraphError` for one that is no Unicode text."""
    out = bytearray()
    encoded = utf8(text)
    put_count(out, len(encoded))
    return bytes(out + encoded)


@lru_cache(_SHARED)
def spec_entry(spec: TensorSpec) -> bytes:
    """Encodes a valid spec, in at least three bytes."""
    out = bytearray([DTYPE_CODE[spec.dtype]])
    put_count(out, len(spec.shape))
    for size in spec.shape:
        put_count(out, size)
    explicit = spec.stride != contiguous_stride(spec.shape)
    out.append(1 if explicit else 0)
    if explicit:
        for step in spec.stride:
            put_count(out, step)
    return bytes(out)


def kind_entry(given: Input) -> KindEntry:
    """Encodes an input without its seed."""
    recipe = given.recipe
    data = recipe.data if isinstance(recipe, Literal) else b""
    return _shared((_ROLE_BYTE[given.role], spec_entry(given.spec), _recipe(recipe), data))


def template_entry(node: Node, holes: list[int]) -> TemplateEntry:
    """Encodes a node without its operands, and appends their numbers to `holes`."""
    done = [string_entry(node.op)]
    out = bytearray()
    put_count(out, len(node.args))
    for arg in node.args:
        put_arg(arg, done, out, holes)
    put_count(out, len(node.kwargs))
    for name, arg in node.kwargs:
        _put_string(name, done, out)
        put_arg(arg, done, out, holes)
    put_count(out, len(node.outputs))
    return _shared((*done, bytes(out)))


def put_arg(arg: Arg, done: list[bytes], out: bytearray, holes: list[int]) -> None:
    """Appends an argument to `out`; a reference leaves a hole, and its number in `holes`.

    Before the number of a string, what is in `out` moves to the end of `done`, and the string's entry follows it there.
    """
    put = _PUT.get(type(arg))
    if put is not None:
        put(out, arg)
    elif isinstance(arg, Ref):
        out.append(wire.HOLE)
        holes.append(arg.index)
    elif isinstance(arg, tuple):
        out.append(wire.TUPLE)
        put_count(out, len(arg))
        for item in arg:
            put_arg(item, done, out, holes)
    elif isinstance(arg, str):
        out.append(wire.STRING)
        _put_string(arg, done, out)
    else:
        next(put for kind, put in _PUT.items() if isinstance(arg, kind))(out, arg)


def _put_string(text: str, done: list[bytes], out: bytearray) -> None:
    """Encodes a string argument; the gap between `done` and `out` is for its number."""
    done.append(bytes(out))
    done.append(string_entry(text))
    out.clear()


def _put_none(out: bytearray, arg: None) -> None:
    out.append(wire.NONE)


def _put_bool(out: bytearray, arg: bool) -> None:
    out.append(wire.TRUE if arg else wire.FALSE)


def _put_int(out: bytearray, number: int) -> None:
    if wire.SMALL_LEAST <= number <= wire.SMALL_LARGEST:
        out.append(number - wire.SMALL_LEAST + wire.SMALL)
    elif -(1 << 63) <= number < 1 << 64:
        out.append(wire.INT)
        put_count(out, zigzag(number))
    else:
        data = number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
        out.append(wire.BIG_INT)
        put_count(out, len(data))
        out += data


def _put_float(out: bytearray, number: float) -> None:
    """Encodes a float: whole numbers short, others as 64 bits; all NaNs are one."""
    if number.is_integer() and abs(number) < 1 << 53 and (number or math.copysign(1.0, number) > 0):
        out.append(wire.WHOLE_FLOAT)
        put_count(out, zigzag(int(number)))
    else:
        out.append(wire.FLOAT)
        out += _exact(number)


def _put_complex(out: bytearray, number: complex) -> None:
    out.append(wire.COMPLEX)
    out += _exact(number.real) + _exact(number.imag)


def _put_dtype(out: bytearray, arg: DType) -> None:
    out += bytes([wire.DTYPE, DTYPE_CODE[arg.name]])


def _put_memory_format(out: bytearray, arg: MemoryFormat) -> None:
    out += bytes([wire.MEMORY_FORMAT, MEMORY_FORMATS.index(arg.name)])


def _put_layout(out: bytearray, arg: Layout) -> None:
    out += bytes([wire.LAYOUT, LAYOUTS.index(arg.name)])


def _put_device(out: bytearray, arg: Device) -> None:
    out.append(wire.DEVICE)


#: What holds neither references nor strings, by type.
_PUT: Final[dict[type, Callable[[bytearray, Any], None]]] = {
    type(None): _put_none,
    bool: _put_bool,
    int: _put_int,
    float: _put_float,
    complex: _put_complex,
    DType: _put_dtype,
    MemoryFormat: _put_memory_format,
    Layout: _put_layout,
    Device: _put_device,
}


def _recipe(recipe: Recipe) -> bytes:
    """Encodes a recipe without its seed and without the data of a literal."""
    match recipe:
        case Uniform():
            return _WITH_TWO.pack(wire.UNIFORM, recipe.low, recipe.high)
        case Normal():
            return _WITH_TWO.pack(wire.NORMAL, recipe.mean, recipe.std)
        case Exceptional():
            return _WITH_ONE.pack(wire.EXCEPTIONAL, recipe.share)
        case Integers():
            out = bytearray([wire.INTEGERS])
            put_count(out, zigzag(recipe.low))
            put_count(out, zigzag(recipe.high))
            return bytes(out)
        case Permutation():
            return bytes([wire.PERMUTATION])
        case Constant():
            out = bytearray([wire.CONSTANT])
            put_arg(recipe.value, [], out, [])
            return bytes(out)
        case Literal():
            out = bytearray([wire.LITERAL])
            put_count(out, len(recipe.data))
            return bytes(out)
        case Stored():
            return bytes([wire.STORED]) + bytes.fromhex(recipe.key)


_WITH_TWO: Final = struct.Struct("<Bdd")
_WITH_ONE: Final = struct.Struct("<Bd")


def seed_of(recipe: Recipe) -> int | None:
    """Returns the seed of a recipe, None if it has none."""
    return None if isinstance(recipe, (Constant, Literal, Stored)) else recipe.seed


def _exact(number: float) -> bytes:
    return struct.pack("<d", number) if number == number else _NAN


def utf8(text: str) -> bytes:
    """Encodes a string as UTF-8. Raises `GraphError` for one that is no Unicode text."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise GraphError(f"{text!r} is no Unicode text: it has a lone surrogate") from None
