"""Defines the byte format: numbers, tags and limits that encoder and decoder share.

Content of a graph, before compression. A *count* is an unsigned LEB128 number; a *signed* one is
zigzag of the same (0, -1, 1, -2 … → 0, 1, 2, 3 …).

    strings     count, then each: count of bytes, UTF-8 (operators, keywords, string arguments)
    specs       count, then each: dtype code, count of dimensions, sizes; 0 if row-major, or 1 and strides
    kinds of input    count, then each: role code, spec, recipe without its seed
    inputs      count, then for each its kind
    seeds       count of bytes of the longest; for each input that has one, seed less the input's
                number, modulo 256 to that count, little-endian
    templates   count, then each: operator, args, keywords and args, count of output slots; no operands
    nodes       count, then for each its template
    operands    for each node, for each hole in its template, a reference
    slots       for each node, for each output slot, a spec
    outputs     count, then each counted back from the last value
    grad        count, then each: signed difference to the one before, less 1

Tables are in the order of first use, so an index in a column is `NEXT` where it is the first use,
and index + 1 otherwise. A reference is 6·distance back from the node's first slot, less 1, for
another node's value; for an input, 6·signed + 1 + role code, where the signed number is its rank
among the inputs of that role less the rank after the one referred to last: parameters are mostly
used in order, so a repeated block gives repeated bytes. A slot is 0 for no tensor, 1 where the
spec is that of the node's first operand, else 2 + an index as above.
"""

from __future__ import annotations

from typing import Final

MAGIC: Final = b"MGAP"
VERSION: Final = 1
#: dtype codes are positions here. Only ever append.
DTYPE_CODES: Final = (
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
    "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
    "bfloat16", "float16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
#: Role codes are positions here. Exactly these five: references are coded by six.
ROLE_CODES: Final = ("input", "parameter", "buffer", "constant", "random")
REFERENCE_KINDS: Final = 1 + len(ROLE_CODES)
#: The index of a table's entry at its first use.
NEXT: Final = 0

#: Uncompressed bytes of a graph, and of its labels.
MAX_CONTENT: Final = 32 << 20
#: Inputs, nodes, values, and arguments (with the members of tuples) that a file may hold.
MAX_THINGS: Final = 1 << 22
#: Bytes of a seed.
MAX_SEED: Final = 16
#: Bytes of one LEB128 number: enough for any bound of a recipe.
MAX_VARINT: Final = 10

#: Tags of arguments. Every tag from SMALL on is an int: tag - SMALL - 16, for -16 … 223.
NONE, FALSE, TRUE, HOLE, INT, BIG_INT, FLOAT, WHOLE_FLOAT, COMPLEX, STRING, DTYPE, MEMORY_FORMAT = range(12)
LAYOUT, DEVICE, TUPLE, SMALL = range(12, 16)
SMALL_LEAST: Final = -16
SMALL_LARGEST: Final = 255 - SMALL + SMALL_LEAST
#: Tags of recipes.
UNIFORM, NORMAL, INTEGERS, PERMUTATION, CONSTANT, LITERAL, STORED, EXCEPTIONAL = range(8)


def put_count(out: bytearray, number: int) -> None:
    """Appends an unsigned LEB128 number."""
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


def zigzag(number: int) -> int:
    """Maps a signed number to an unsigned one, small for small magnitudes."""
    return number << 1 if number >= 0 else (-number << 1) - 1


def unzigzag(number: int) -> int:
    """Inverts `zigzag`."""
    return number >> 1 if not number & 1 else -((number + 1) >> 1)
