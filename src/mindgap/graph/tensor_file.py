"""Writes and reads the file of one tensor: the safetensors format, with a tensor `tensor` and metadata.

The metadata hold `dtype` and `shape`. dtypes that safetensors lacks, and packed tensors, are in the file as bytes. The
values are little-endian and begin at a multiple of 64 bytes, so that a large tensor can be mapped: processes share its
memory, and write to copies of their own.
"""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import zstandard

from mindgap.graph.spec import Array, dtype_name, is_little_endian, numpy_dtype, with_bytes_reversed

#: dtypes under their names in safetensors; others are kept as bytes.
_NAMES: Final = {
    "bool": "BOOL", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "uint8": "U8", "uint16": "U16",
    "uint32": "U32", "uint64": "U64", "float16": "F16", "float32": "F32", "float64": "F64",
}  # fmt: skip
_ALIGN: Final = 64
#: Index and position tables repeat themselves: packed, most take less than a hundredth.
_LEVEL: Final = 3
#: A packed tensor is kept where it takes less than this share of the plain one's bytes; below `_SMALL` bytes, never.
_WORTH: Final = 0.75
#: A tensor large enough to be mapped is packed only below this share: processes share what is mapped, while each holds
#: what it unpacks. Weights of 16 bits held in float32 pack to a half.
_WORTH_LARGE: Final = 0.1
_SMALL: Final = 4096
#: Of a tensor larger than this, a piece of this size decides whether the whole is packed.
_PIECE: Final = 1 << 20
#: A tensor of at least so many bytes is mapped, not read.
MAPPED_BYTES: Final = 1 << 20
_LENGTH: Final = struct.Struct("<Q")
_MAX_HEADER: Final = 1 << 20


def write_tensor(file: IO[bytes], array: Array) -> None:
    """Writes the file of a tensor whose dtype graphs hold."""
    name, content = dtype_name(array.dtype), bytes_of(array)
    about = {"dtype": name, "shape": json.dumps(list(array.shape))}
    frame = _packed(content)
    if frame is not None:
        content, about = frame, {**about, "packed": "zstd"}
    plain = frame is None and name in _NAMES
    described = {
        "dtype": _NAMES[name] if plain else "U8",
        "shape": list(array.shape) if plain else [len(content)],
        "data_offsets": [0, len(content)],
    }
    header = json.dumps({"__metadata__": about, "tensor": described}, separators=(",", ":")).encode()
    header += b" " * (-(_LENGTH.size + len(header)) % _ALIGN)
    file.write(_LENGTH.pack(len(header)))
    file.write(header)
    file.write(content)


def read_tensor(file: Path) -> Array:
    """Reads a tensor's file. A large plain tensor is mapped: writing to it changes neither the file nor other readers.

    Raises OSError, and `ValueError`, `KeyError`, `TypeError` or `ZstdError` for a file that is damaged.
    """
    with file.open("rb") as opened:
        (length,) = _LENGTH.unpack(_exactly(opened, _LENGTH.size))
        if length > _MAX_HEADER:
            raise ValueError(f"a header of {length} bytes")
        header: Any = json.loads(_exactly(opened, length))
        about: Any = header["__metadata__"]
        begin, end = header["tensor"]["data_offsets"]
        offset, size = _LENGTH.size + length + begin, end - begin
        if begin < 0 or size < 0 or offset + size != file.stat().st_size:
            raise ValueError(f"it has {file.stat().st_size} bytes, of {offset + size}")
        dtype, shape = numpy_dtype(about["dtype"]), tuple(map(int, json.loads(about["shape"])))
        if "packed" in about:
            opened.seek(offset)
            content = _unpacked(_exactly(opened, size), math.prod(shape) * dtype.itemsize)
        elif size >= MAPPED_BYTES and offset % _ALIGN == 0:
            content = np.memmap(opened, np.uint8, "c", offset, (size,)).view(np.ndarray)
        else:
            opened.seek(offset)
            content = np.frombuffer(bytearray(_exactly(opened, size)), np.uint8)
    array = content.view(dtype).reshape(shape)
    return array if is_little_endian(dtype) else with_bytes_reversed(array)


def bytes_of(array: Array) -> memoryview:
    """The row-major bytes, little-endian, without a copy if the array is that."""
    array = array if is_little_endian(array.dtype) else with_bytes_reversed(array)
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _packed(content: memoryview) -> memoryview | None:
    """The zstd frame, or None where it is not worth it."""
    if len(content) <= _SMALL:
        return None
    worth = _WORTH_LARGE if len(content) >= MAPPED_BYTES else _WORTH
    if len(content) > _PIECE:
        middle = (len(content) - _PIECE) // 2
        piece = content[middle : middle + _PIECE]
        if len(zstandard.ZstdCompressor(level=_LEVEL).compress(piece)) >= worth * _PIECE:
            return None
    frame = zstandard.ZstdCompressor(level=_LEVEL).compress(content)
    return memoryview(frame) if len(frame) < worth * len(content) else None


def _unpacked(frame: bytes, size: int) -> Array:
    """Unpacks the `size` bytes of a frame. Raises `ValueError` for another size, before it takes memory."""
    if zstandard.get_frame_parameters(frame).content_size != size:
        raise ValueError(f"its frame does not hold {size} bytes")
    return np.frombuffer(bytearray(zstandard.ZstdDecompressor().decompress(frame)), np.uint8)


def _exactly(file: IO[bytes], count: int) -> bytes:
    data = file.read(count)
    if len(data) != count:
        raise ValueError(f"it ends after {len(data)} of {count} bytes")
    return data
