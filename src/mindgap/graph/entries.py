"""The entries of the tables of a graph's content, each on its own; the layout is described in `wire`.

An entry that names others (a template its strings, a kind of input its spec) has their own entries in the places
where their numbers go, because the numbers depend on what else a graph holds. Equal entries mean equal things.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

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
from mindgap.graph.validate import LAYOUTS, MEMORY_FORMATS
from mindgap.graph.wire import put_count, zigzag

#: Role code, entry of the spec, recipe without its seed.
KindEntry = tuple[bytes, bytes, bytes]
#: By turns the entry of a string and the bytes that follow its number; the first string is the operator.
TemplateEntry = tuple[bytes, ...]

DTYPE_CODE: Final = {name: code for code, name in enumerate(wire.DTYPE_CODES)}
ROLE_CODE: Final = {name: code for code, name in enumerate(wire.ROLE_CODES)}
_ROLE_BYTE: Final = {name: bytes([code]) for name, code in ROLE_CODE.items()}
_NAN: Final = struct.pack("<d", math.nan)
#: Entries that are kept to be shared: real graphs repeat a few thousand.
_SHARED: Final = 1 << 14


@lru_cache(_SHARED)
def string_entry(text: str) -> bytes:
    """A string. Raises `GraphError` for one that is no Unicode text."""
    out = bytearray()
    encoded = utf8(text)
    put_count(out, len(encoded))
    return bytes(out + encoded)


@lru_cache(_SHARED)
def spec_entry(spec: TensorSpec) -> bytes:
    """A spec, which must be sound; at least three bytes."""
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
    """What an input has in common with others that differ in their seeds alone."""
    return _ROLE_BYTE[given.role], spec_entry(given.spec), _recipe(given.recipe)


def template_entry(node: Node, holes: list[int]) -> TemplateEntry:
    """The node without its operands, whose numbers are appended to `holes`."""
    writer = ArgumentWriter(holes)
    writer.put_string(node.op)
    put_count(writer.out, len(node.args))
    for arg in node.args:
        writer.put(arg)
    put_count(writer.out, len(node.kwargs))
    for name, arg in node.kwargs:
        writer.put_string(name)
        writer.put(arg)
    put_count(writer.out, len(node.outputs))
    return _shared_template(writer.finished())


@lru_cache(_SHARED)
def _shared_template(entry: TemplateEntry) -> TemplateEntry:
    """The first of equal entries: fewer bytes are kept, and finding one in a table compares addresses alone."""
    return entry


class ArgumentWriter:
    """Arguments as they are written: bytes, cut where the number of a string goes."""

    __slots__ = ("_done", "holes", "out")

    def __init__(self, holes: list[int]) -> None:
        self.out = bytearray()
        self.holes = holes
        self._done: list[bytes] = []

    def put_string(self, text: str) -> None:
        """Leave a place for the number of a string."""
        if self._done or self.out:
            self._done.append(bytes(self.out))
        self._done.append(string_entry(text))
        self.out.clear()

    def put(self, arg: Arg) -> None:
        """Append an argument; a reference leaves a hole, and its number in `holes`."""
        put = _PUT.get(type(arg))
        if put is None:
            put = next((put for kind, put in _PUT.items() if isinstance(arg, kind)), None)
            if put is None:
                raise GraphError(f"{arg!r} is nothing that an argument may be")
        put(self, arg)

    def finished(self) -> tuple[bytes, ...]:
        """All that was written: where it began with a string, strings and bytes by turns."""
        return (*self._done, bytes(self.out))


def _put_ref(writer: ArgumentWriter, arg: Ref) -> None:
    writer.out.append(wire.HOLE)
    writer.holes.append(arg.index)


def _put_tuple(writer: ArgumentWriter, arg: tuple[Arg, ...]) -> None:
    writer.out.append(wire.TUPLE)
    put_count(writer.out, len(arg))
    for item in arg:
        writer.put(item)


def _put_text(writer: ArgumentWriter, arg: str) -> None:
    writer.out.append(wire.STRING)
    writer.put_string(arg)


def _put_none(writer: ArgumentWriter, arg: None) -> None:
    writer.out.append(wire.NONE)


def _put_device(writer: ArgumentWriter, arg: Device) -> None:
    writer.out.append(wire.DEVICE)


def _plain(put: Callable[[bytearray, Any], None]) -> Callable[[ArgumentWriter, Any], None]:
    """A way to write what holds neither references nor strings."""
    return lambda writer, arg: put(writer.out, arg)


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
    """Whole numbers short, everything else as its 64 bits; every NaN is one NaN."""
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


#: By type. bool comes before int, of which it is one, for what is of neither type but of a class made from it.
_PUT: Final[dict[type, Callable[[ArgumentWriter, Any], None]]] = {
    Ref: _put_ref,
    bool: _plain(_put_bool),
    int: _plain(_put_int),
    tuple: _put_tuple,
    type(None): _put_none,
    float: _plain(_put_float),
    str: _put_text,
    complex: _plain(_put_complex),
    DType: _plain(_put_dtype),
    MemoryFormat: _plain(_put_memory_format),
    Layout: _plain(_put_layout),
    Device: _put_device,
}
_PUT_NUMBER: Final[dict[type, Callable[[bytearray, Any], None]]] = {
    bool: _put_bool,
    int: _put_int,
    float: _put_float,
    complex: _put_complex,
}


def _recipe(recipe: Recipe) -> bytes:
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
            value = recipe.value
            put = _PUT_NUMBER.get(type(value)) or next(
                put for kind, put in _PUT_NUMBER.items() if isinstance(value, kind)
            )
            put(out, value)
            return bytes(out)
        case Literal():
            out = bytearray([wire.LITERAL])
            put_count(out, len(recipe.data))
            return bytes(out) + recipe.data
        case Stored():
            return bytes([wire.STORED]) + bytes.fromhex(recipe.key)


_WITH_TWO: Final = struct.Struct("<Bdd")
_WITH_ONE: Final = struct.Struct("<Bd")


def seed_of(recipe: Recipe) -> int | None:
    """The seed of a recipe that has one."""
    return None if isinstance(recipe, (Constant, Literal, Stored)) else recipe.seed


def _exact(number: float) -> bytes:
    return struct.pack("<d", number) if number == number else _NAN


def utf8(text: str) -> bytes:
    """A string as bytes. Raises `GraphError` for one that is no Unicode text."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise GraphError(f"{text!r} is no Unicode text: it has a lone surrogate") from None
