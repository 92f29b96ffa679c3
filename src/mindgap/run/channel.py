"""Sends and receives frames between the parent and a worker: a JSON header and arrays, with a checksum.

    prefix   24 bytes: b"mgap", header length (u32), body length (u64), XXH3-64 of the body (u64); little-endian
    body     the header as JSON (its `arrays` lists [dtype, shape] of each array, its `byte_order` is `little` or
             `big`), then the arrays' bytes, row-major, each at a multiple of 64 bytes from the body's start

Nothing is pickled and nothing is executed: all that arrives is a frame or a `ChannelError`.
"""

from __future__ import annotations

import json
import math
import os
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import xxhash

from mindgap.graph import DTYPES, Array, dtype_name, numpy_dtype
from mindgap.graph.spec import with_bytes_reversed

MAGIC: Final = b"mgap"
_PREFIX: Final = struct.Struct("<4sIQQ")
_ALIGN: Final = 64
#: A header is a few KiB; a larger one, or a body past this, is noise that happens to begin like a frame.
_MAX_HEADER: Final = 1 << 28
_MAX_BODY: Final = 1 << 42
#: The most bytes taken from a pipe at a time.
_READ: Final = 1 << 20


class ChannelError(Exception):
    """The received bytes are no frame."""


class ChannelClosed(Exception):
    """The other process has closed the channel."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message. The arrays share one buffer, writable and aligned for their dtypes."""

    header: Mapping[str, Any]
    arrays: tuple[Array, ...]


def encode_frame(header: Mapping[str, Any], arrays: Sequence[Array] = ()) -> list[memoryview]:
    """Returns the frame as buffers to write in order. C-contiguous arrays are not copied."""
    head = dict(header)
    if arrays:
        arrays = [a if a.dtype.isnative else a.astype(a.dtype.newbyteorder("=")) for a in arrays]
        head["arrays"] = [[dtype_name(a.dtype), a.shape] for a in arrays]
        head["byte_order"] = sys.byteorder
    text = json.dumps(head, separators=(",", ":")).encode()
    buffers = [memoryview(text)]
    end = len(text)
    for array in arrays:
        flat = np.ascontiguousarray(array).reshape(-1)
        if flat.size == 0:
            continue
        buffers.append(memoryview(bytes(-end % _ALIGN)))
        buffers.append(flat.view(np.uint8).data)
        end += -end % _ALIGN + flat.nbytes
    digest = xxhash.xxh3_64()
    for buffer in buffers:
        digest.update(buffer)
    prefix = _PREFIX.pack(MAGIC, len(text), end, digest.intdigest())
    return [memoryview(prefix), *buffers]


def send_frame(fd: int, header: Mapping[str, Any], arrays: Sequence[Array] = ()) -> None:
    """Writes a whole frame to a blocking descriptor. Raises `ChannelClosed`."""
    pending = encode_frame(header, arrays)
    while pending:
        pending = write_some(fd, pending)


def write_some(fd: int, pending: list[memoryview]) -> list[memoryview]:
    """Writes as much as the descriptor takes at once; returns the rest. Raises `ChannelClosed`."""
    try:
        written = os.writev(fd, pending[:16])
    except BlockingIOError:
        return pending
    except (BrokenPipeError, ConnectionError) as error:
        raise ChannelClosed from error
    for index, buffer in enumerate(pending):
        if written < len(buffer):
            return [buffer[written:], *pending[index + 1 :]]
        written -= len(buffer)
    return []


class FrameReader:
    """Reads frames from a descriptor, blocking or not."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        #: Bytes so far.
        self.received = 0
        self._start()

    def _start(self) -> None:
        self._prefix = b""
        self._body: Array | None = None
        self._filled = 0
        self._header_length = 0
        self._checksum = 0

    def next(self) -> Frame:
        """Returns the next frame of a blocking descriptor. Raises as `pull` does."""
        while (frame := self.pull()) is None:
            pass
        return frame

    def pull(self) -> Frame | None:
        """Reads the bytes that are there. Returns a frame if one is complete, else None: call again.

        Raises `ChannelClosed` at the end of the stream and `ChannelError` for what is no frame.
        """
        try:
            if self._body is None:
                self._pull_prefix()
            if self._body is not None and self._filled < self._body.size:
                self._pull_body(self._body)
        except BlockingIOError:
            return None
        except ConnectionError as error:
            raise ChannelClosed from error
        if self._body is None or self._filled < self._body.size:
            return None
        body, length, checksum = self._body, self._header_length, self._checksum
        self._start()
        if xxhash.xxh3_64_intdigest(body.data) != checksum:
            raise ChannelError("a frame's bytes do not match its checksum")
        return _decode(body, length)

    def _pull_prefix(self) -> None:
        got = os.read(self._fd, _PREFIX.size - len(self._prefix))
        if not got:
            raise ChannelClosed
        self._prefix += got
        self.received += len(got)
        if not self._prefix.startswith(MAGIC[: len(self._prefix)]):
            raise ChannelError(f"bytes that begin no frame: {self._prefix!r}")
        if len(self._prefix) < _PREFIX.size:
            return
        _, self._header_length, size, self._checksum = _PREFIX.unpack(self._prefix)
        if not 2 <= self._header_length <= min(size, _MAX_HEADER) or size > _MAX_BODY:
            raise ChannelError(f"a frame of {size} bytes with a header of {self._header_length}")
        try:
            self._body = np.empty(size, np.uint8)
        except MemoryError:
            raise ChannelError(f"a frame of {size} bytes, for which there is no memory") from None

    def _pull_body(self, body: Array) -> None:
        got = os.readv(self._fd, [body[self._filled : self._filled + _READ].data])
        if not got:
            raise ChannelClosed
        self._filled += got
        self.received += got


def _decode(body: Array, length: int) -> Frame:
    try:
        header = json.loads(body[:length].tobytes())
        if not isinstance(header, dict):
            raise ChannelError("a frame whose header is not an object")
        header = cast("dict[str, Any]", header)
        arrays = _arrays(body, length, header.pop("arrays", ()))
        if arrays and header.pop("byte_order") != sys.byteorder:
            arrays = tuple(map(with_bytes_reversed, arrays))
        return Frame(header, arrays)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ChannelError(f"a frame whose header cannot be read: {error}") from error


def _arrays(body: Array, end: int, described: Sequence[tuple[str, Sequence[int]]]) -> tuple[Array, ...]:
    """Returns the arrays after the header. ValueError, TypeError or KeyError for a description that does not fit."""
    arrays: list[Array] = []
    for name, shape in described:
        if name not in DTYPES or any(size < 0 for size in shape):
            raise ValueError(f"an array {name}{list(shape)}")
        dtype = numpy_dtype(name)
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes == 0:
            arrays.append(np.empty(tuple(shape), dtype))
            continue
        start = end + -end % _ALIGN
        end = start + nbytes
        if end > body.size:
            raise ValueError(f"an array {name}{list(shape)} that goes past the end")
        arrays.append(body[start:end].view(dtype).reshape(tuple(shape)))
    if end != body.size:
        raise ValueError(f"{body.size - end} bytes too many")
    return tuple(arrays)
