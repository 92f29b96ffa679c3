"""Frames survive any chunking, and anything else is refused as garbage."""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest
import xxhash
from hypothesis import given, strategies as st

from mindgap.graph import DTYPES, numpy_dtype
from mindgap.graph.spec import with_bytes_reversed
from mindgap.run.channel import ChannelClosed, ChannelError, Frame, FrameReader, encode_frame, send_frame, write_some

shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)
arrays = st.builds(
    lambda dtype, shape, seed: (
        np.frombuffer(np.random.default_rng(seed).bytes(64 * 16), np.uint8)
        .copy()[: int(np.prod(shape, dtype=int)) * numpy_dtype(dtype).itemsize]
        .view(numpy_dtype(dtype))
        .reshape(shape)
    ),
    st.sampled_from([d for d in DTYPES if d != "bool"]),
    shapes,
    st.integers(0, 99),
)
headers = st.dictionaries(
    st.text(max_size=5).filter(lambda key: key != "arrays"),
    st.none() | st.integers() | st.floats() | st.text() | st.lists(st.integers(), max_size=3),
    max_size=4,
)


def received(data: bytes, piece: int) -> Iterator[Frame]:
    """Frames read from a pipe into which `data` comes a piece at a time."""
    read, write = os.pipe()

    def feed() -> None:
        for start in range(0, len(data), piece):
            os.write(write, data[start : start + piece])
        os.close(write)

    thread = threading.Thread(target=feed)
    thread.start()
    reader = FrameReader(read)
    try:
        while True:
            frame = reader.pull()
            if frame is not None:
                yield frame
    except ChannelClosed:
        return
    finally:
        os.close(read)
        thread.join()


@given(headers, st.lists(arrays, max_size=3), st.sampled_from([1, 7, 24, 4096]))
def test_frames_come_back_whatever_the_pieces(header: dict[str, object], sent: list[np.ndarray], piece: int) -> None:
    data = b"".join(encode_frame(header, sent)) * 2
    frames = list(received(data, piece))
    assert len(frames) == 2
    for frame in frames:
        assert repr(dict(frame.header)) == repr(header)  # by repr: NaN is not equal to itself
        assert [(a.dtype, a.shape, a.tobytes()) for a in frame.arrays] == [
            (a.dtype, a.shape, a.tobytes()) for a in sent
        ]
        assert all(a.flags.aligned and a.flags.writeable for a in frame.arrays)


def test_non_contiguous_arrays_are_sent_row_major() -> None:
    array = np.arange(24, dtype=np.int16).reshape(4, 6)[::2, ::3].T
    (frame,) = received(b"".join(encode_frame({}, [array])), 1000)
    assert np.array_equal(frame.arrays[0], array)


@given(st.binary(min_size=1, max_size=64))
def test_noise_is_refused(noise: bytes) -> None:
    data = noise + b"\n" * 64
    with pytest.raises(ChannelError):
        list(received(data, 4096))


@given(st.data())
def test_one_flipped_bit_is_never_taken_for_a_frame(data: st.DataObject) -> None:
    whole = bytearray(b"".join(encode_frame({"kind": "outcome", "n": 3}, [np.arange(5.0)])))
    # Past the magic and the lengths: a larger length only makes the reader wait for more.
    bit = data.draw(st.integers(16 * 8, len(whole) * 8 - 1))
    whole[bit // 8] ^= 1 << bit % 8
    with pytest.raises(ChannelError):
        list(received(bytes(whole), 4096))


@pytest.mark.parametrize(
    "described",
    [
        [["float32", [99]]],
        [["float32", [1]]],
        [["object", [2]]],
        [["float32", [-2]]],
        [["float32"]],
        "nonsense",
        [["float32", [2]], ["float32", [2]]],
    ],
)
def test_a_header_that_does_not_fit_its_arrays_is_refused(described: object) -> None:
    text = json.dumps({"arrays": described}).encode()
    body = text + bytes(-len(text) % 64) + np.zeros(2, np.float32).tobytes()
    prefix = struct.pack("<4sIQQ", b"mgap", len(text), len(body), xxhash.xxh3_64_intdigest(body))
    with pytest.raises(ChannelError):
        list(received(prefix + body, 4096))


def test_a_closed_pipe_is_told_apart_from_noise() -> None:
    read, write = os.pipe()
    os.close(read)
    with pytest.raises(ChannelClosed):
        send_frame(write, {"kind": "x"})
    os.close(write)


def test_writing_stops_where_the_pipe_is_full_and_goes_on_later() -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    array = np.arange(1 << 18, dtype=np.uint8)
    pending = encode_frame({"kind": "big"}, [array])
    reader = FrameReader(read)
    frame = None
    stalled = False
    while frame is None:
        before = sum(map(len, pending))
        pending = write_some(write, pending) if pending else []
        stalled |= bool(pending) and sum(map(len, pending)) == before
        if stalled or not pending:
            frame = reader.pull()
    assert stalled and np.array_equal(frame.arrays[0], array)
    os.close(read)
    os.close(write)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "bfloat16", "int64", "bool"])
def test_numbers_of_a_machine_of_the_other_byte_order_are_read(dtype: str) -> None:
    sent = np.arange(6).reshape(2, 3).astype(numpy_dtype(dtype))
    other = "big" if sys.byteorder == "little" else "little"
    header = {"kind": "outcome", "arrays": [[dtype, [2, 3]]], "byte_order": other}
    text = json.dumps(header).encode()
    body = text + bytes(-len(text) % 64) + with_bytes_reversed(sent).tobytes()
    prefix = struct.pack("<4sIQQ", b"mgap", len(text), len(body), xxhash.xxh3_64_intdigest(body))
    (frame,) = received(prefix + body, 1000)
    assert np.array_equal(frame.arrays[0], sent) and frame.arrays[0].dtype == sent.dtype
    assert frame.header == {"kind": "outcome"}


def test_an_array_whose_numbers_are_not_native_is_sent_as_native() -> None:
    array = np.array([1.5, -2.0], ">f4" if sys.byteorder == "little" else "<f4")
    (frame,) = received(b"".join(encode_frame({}, [array])), 1000)
    assert np.array_equal(frame.arrays[0], array) and frame.arrays[0].dtype.isnative


def test_a_frame_for_which_there_is_no_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(size: int, dtype: object) -> None:
        raise MemoryError

    monkeypatch.setattr(np, "empty", full)
    with pytest.raises(ChannelError, match=f"a frame of {1 << 41} bytes, for which there is no memory"):
        next(received(struct.pack("<4sIQQ", b"mgap", 10, 1 << 41, 0), 24))
