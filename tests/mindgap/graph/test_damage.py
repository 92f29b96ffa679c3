"""Bytes from strangers: a graph that keeps every rule, or a GraphError; nothing else, and cheaply."""

from __future__ import annotations

import contextlib
import resource
import time

import pytest
import zstandard
from hypothesis import given, settings, strategies as st

from graph.samples import chain
from graph.strategies import graphs
from mindgap.graph import Graph, GraphError, decode, encode, validate, wire
from mindgap.graph.decoder import graph_from_content, labels_from_content
from mindgap.graph.encoder import graph_content, labels_content


def packed(content: bytes, labels: bytes = b"") -> bytes:
    """A file of this content, as an attacker would write one: every checksum right."""
    out = bytearray(wire.MAGIC)
    out.append(wire.VERSION)
    frame = zstandard.compress(content)
    wire.put_count(out, len(frame))
    return bytes(out) + frame + (zstandard.compress(labels) if labels else b"")


def refused_or_sound(data: bytes) -> None:
    try:
        graph = decode(data)
    except GraphError as error:
        assert str(error) and "\n" not in str(error)
        return
    validate(graph)
    assert decode(encode(graph)) == graph or "nan" in repr(graph)


@st.composite
def mutations(draw: st.DrawFn, data: bytes) -> bytes:
    """The bytes with a few changed, cut out, put in, repeated or moved."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(changed)))
        length = draw(st.integers(0, 6))
        piece = draw(
            st.one_of(st.binary(max_size=12), st.sampled_from([b"\xff" * 9 + b"\x01", b"\xff" * 12, b"\0" * 8]))
        )
        how = draw(st.sampled_from(["write", "cut", "repeat", "end"]))
        if how == "write":
            changed[start : start + length] = piece
        elif how == "cut":
            del changed[start : start + length]
        elif how == "repeat":
            changed[start:start] = changed[start : start + length] * 3
        else:
            del changed[start:]
    return bytes(changed)


@given(st.binary(max_size=200))
@settings(max_examples=100)
def test_any_bytes(data: bytes) -> None:
    refused_or_sound(data)
    refused_or_sound(packed(data))
    refused_or_sound(wire.MAGIC + data)
    refused_or_sound(packed(graph_content(chain()), data))


@given(graphs(max_inputs=3, max_nodes=4), st.data())
@settings(max_examples=100)
def test_mutated_files(graph: Graph, data: st.DataObject) -> None:
    refused_or_sound(data.draw(mutations(encode(graph))))


@given(graphs(max_inputs=3, max_nodes=4), st.data())
@settings(max_examples=150)
def test_mutated_content_behind_good_checksums(graph: Graph, data: st.DataObject) -> None:
    refused_or_sound(packed(data.draw(mutations(graph_content(graph))), labels_content(graph)))


def test_every_truncation_and_every_flipped_bit_is_refused() -> None:
    good = encode(chain())
    for end in range(len(good)):
        if good[:end] != encode(chain(), labels=False):
            with pytest.raises(GraphError):
                decode(good[:end])
    for bit in range(8 * len(good)):
        flipped = bytearray(good)
        flipped[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(GraphError):
            assert decode(bytes(flipped)) == chain(), f"bit {bit} changed the graph and nobody saw"


def test_every_changed_byte_of_the_content_is_handled() -> None:
    content = graph_content(chain())
    for position in range(len(content)):
        for byte in (0, 1, 2, 3, 7, 14, 15, 16, 31, 63, 127, 128, 200, 255):
            refused_or_sound(packed(content[:position] + bytes([byte]) + content[position + 1 :]))


def leb(number: int) -> bytes:
    out = bytearray()
    wire.put_count(out, number)
    return bytes(out)


OP = b"\x01" + b"\x0faten.add.Tensor"
HOSTILE: dict[str, tuple[bytes, str]] = {
    "more strings than there are bytes": (leb(1 << 40), "beginning cannot be read: it holds more than"),
    "more dimensions than bytes": (b"\0\x01\x0f" + leb(1 << 40), "spec 0 .*dimensions"),
    "a string as long as memory": (b"\x01" + leb(1 << 50), "string 0 cannot be read"),
    "an endless number": (b"\xff" * 100, "longer than 10 bytes"),
    "text that is no UTF-8": (b"\x01\x02\xff\xfe", "string 0"),
    "nesting without end": (OP + b"\0\0\0\0" + b"\x01\0\x01" + b"\x0e\x01" * 5000, "template 0 .*nest"),
    "a tuple of a billion": (OP + b"\0\0\0\0" + b"\x01\0\x01\x0e" + leb(10**9), "template 0 .*more than"),
    "an integer of a gigabit": (OP + b"\0\0\0\0" + b"\x01\0\x01\x05" + leb(1 << 27), "template 0 .*bits"),
    "a node with a billion results": (
        OP + b"\0\0\0\0" + b"\x01\0\0\0" + leb(10**9) + b"\x01\0", "node 0 .*more than"
    ),
    "an operator that is none": (
        b"\x01\x0b__import__x" + b"\0\0\0\0" + b"\x01\0\0\0\0" + b"\x01\0" + b"\0\0", "node 0 .*packet.overload"
    ),
    "a layout that is code": (OP + b"\0\0\0\0" + b"\x01\0\x01\x0c\x63", "template 0 cannot be read"),
    "a template that is not there": (OP + b"\0\0\0\0" + b"\0" + b"\x01\x09", "node 0 cannot be read"),
    "a reference before the first value": (
        OP + b"\0\0\0\0" + b"\x01\0\x01\x03\0\0" + b"\x01\0" + b"\x06", "operands of node 0 .*before any node"
    ),
    "a reference to an input that is not there": (
        OP + b"\0\0\0\0" + b"\x01\0\x01\x03\0\0" + b"\x01\0" + b"\x01", "operands of node 0 .*input 0 among the inputs"
    ),
    "an output that is not there": (b"\0" * 7 + b"\x01\x05\0", "output 0 is value -6"),
    "bytes after the end": (b"\0" * 9 + b"\x07", "1 bytes are left over"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_content_is_refused_by_name(name: str) -> None:
    content, message = HOSTILE[name]
    with pytest.raises(GraphError, match=message):
        decode(packed(content))


def test_an_empty_graph_is_a_graph() -> None:
    # The hostile ones above are edits of this one: it must itself be good, or they prove nothing.
    assert decode(packed(b"\0" * 9)) == Graph((), (), ())


def bomb(count: int, nodes: int = 1_000_000) -> bytes:
    """Nodes of one template, whose tuple has a hole and `count` numbers to be copied into each."""
    one_input = b"\x01\x07\0\0" + b"\x01\0\0" + bytes([wire.PERMUTATION]) + b"\x01\0" + b"\x01\0"
    template = b"\x01\0\x01\x0e" + leb(count + 1) + b"\x03" + b"\x20" * count + b"\0\0"
    return (
        OP
        + one_input
        + template
        + leb(nodes)
        + b"\0"
        + b"\x01" * (nodes - 1)
        + b"\x01"
        + b"\x07" * (nodes - 1)
        + b"\0\0"
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(packed(b"\0" * (wire.MAX_CONTENT + 1)), "graph would be", id="more than a graph may be"),
        pytest.param(packed(b"\0" * wire.MAX_CONTENT), "left over", id="as much as a graph may be"),
        pytest.param(packed(bomb(100_000)), "node .* more than", id="a node that multiplies"),
        pytest.param(packed(leb(1 << 22) + b"\0" * (1 << 22)), "table of specs", id="four million empty strings"),
        pytest.param(
            packed(OP + b"\0\0\0\0" + b"\x01\0\0\0\0" + leb(1 << 22) + b"\0" + b"\x01" * (1 << 22)),
            "nodes cannot be read: it holds more than",
            id="four million nodes",
        ),
    ],
)
def test_bombs_are_cheap(data: bytes, message: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    with pytest.raises(GraphError, match=message):
        decode(data)
    assert time.process_time() - start < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000, "KiB"


def test_the_multiplying_node_is_a_graph_where_it_multiplies_little() -> None:
    # So that the bomb above is refused for its size and nothing else.
    graph = graph_from_content(bomb(1, nodes=1000))
    assert len(graph.nodes) == 1000


def test_a_frame_that_hides_its_size_is_refused() -> None:
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(graph_content(chain()))
    with pytest.raises(GraphError, match="would be"):
        decode(wire.MAGIC + bytes([wire.VERSION]) + leb(len(frame)) + frame)


def test_headings() -> None:
    good = encode(chain())
    for data, message in (
        (b"", "do not begin with MGAP"),
        (b"MGAP", "end after the heading"),
        (b"MGAP\x63" + good[5:], "format 99 is not known here"),
        (good[:5] + b"\xff" * 9, "length of the graph cannot be read"),
        (good[:5] + b"\xff\x7f" + good[7:], "bytes are promised"),
    ):
        with pytest.raises(GraphError, match=message):
            decode(data)


@given(st.binary(max_size=60))
def test_any_labels(data: bytes) -> None:
    try:
        labels = labels_from_content(data, chain())
    except GraphError:
        return
    assert len(labels.nodes) in (0, 3)


def test_content_alone_is_checked_as_well() -> None:
    with pytest.raises(GraphError, match="damaged graph: beginning cannot be read: the bytes end"):
        graph_from_content(b"")
