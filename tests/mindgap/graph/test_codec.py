"""Graph bytes: exact round trips, one form for each graph, labels apart."""

from __future__ import annotations

import hashlib
import math
import pickle
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from graph.samples import F4, call, chain
from graph.strategies import graphs
from mindgap.graph import (
    Constant,
    Graph,
    GraphError,
    Input,
    Labels,
    Literal,
    Node,
    Ref,
    TensorSpec,
    Uniform,
    decode,
    digest,
    digest_of_bytes,
    encode,
    load,
    save,
)
from mindgap.graph.encoder import graph_content
from mindgap.graph.wire import DTYPE_CODES, MAX_CONTENT, ROLE_CODES, unzigzag, zigzag


def exactly(thing: object) -> str:
    """Tells 1 from True and 1.0, and 0.0 from -0.0, which == does not."""
    return repr(thing)


@given(graphs())
def test_round_trip(graph: Graph) -> None:
    back = decode(encode(graph))
    assert exactly(back) == exactly(graph)
    assert back == graph and back.labels == graph.labels
    assert encode(back) == encode(graph)
    assert digest_of_bytes(encode(graph)) == digest(graph)


@given(graphs())
@settings(max_examples=30)
def test_labels_are_no_part_of_the_identity(graph: Graph) -> None:
    bare = replace(graph, labels=Labels())
    assert encode(graph, labels=False) == encode(bare)
    assert digest(graph) == digest(bare) == hashlib.sha256(graph_content(graph)).hexdigest()
    assert decode(encode(graph, labels=False)).labels == Labels()


@given(graphs())
@settings(max_examples=30)
def test_equal_graphs_built_apart_have_equal_bytes(graph: Graph) -> None:
    # A pickle round trip shares no object with the original: no caching by identity can tell.
    assert encode(pickle.loads(pickle.dumps(graph))) == encode(graph)


def with_arg(arg: object) -> Graph:
    return Graph((Input(F4, Constant(0.0)),), (call("add.Scalar", Ref(0), arg),), (1,))


ALIKE = [1, 1.0, True, 0, 0.0, -0.0, False, None, (), (1,), (1.0,), (True,), 1 + 0j, complex(1, -0.0), "", "1", ((1,),)]


def test_type_and_sign_are_part_of_the_identity() -> None:
    assert len({digest(with_arg(arg)) for arg in ALIKE}) == len(ALIKE)
    for arg in ALIKE:
        assert exactly(decode(encode(with_arg(arg)))) == exactly(with_arg(arg))


def test_constants_of_recipes_keep_type_and_sign() -> None:
    def constant(value: float) -> Graph:
        return Graph((Input(F4, Constant(value)),), (), (0,))

    assert len({digest(constant(value)) for value in (0, 0.0, -0.0, math.nan, math.inf, -math.inf)}) == 6
    both = Graph((Input(F4, Constant(0.0)), Input(F4, Constant(-0.0))), (), (0, 1))
    assert exactly(decode(encode(both))) == exactly(both)


def test_every_nan_is_one() -> None:
    odd = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_1234))[0]
    assert digest(with_arg(odd)) == digest(with_arg(math.nan)) == digest(with_arg(-math.nan))


@pytest.mark.parametrize(
    "number", [-17, -16, 239, 240, 223, 1 << 63, (1 << 64) - 1, 1 << 64, -(1 << 63) - 1, -(1 << 900)]
)
def test_integers_of_any_size(number: int) -> None:
    assert decode(encode(with_arg(number))).nodes[0].args[1] == number
    assert unzigzag(zigzag(number)) == number


def test_repeated_blocks_give_repeated_bytes() -> None:
    def stack(blocks: int) -> Graph:
        inputs = (Input(F4, Uniform(7)), *(Input(F4, Uniform(8 + k), "parameter") for k in range(2 * blocks)))
        nodes: list[Node] = []
        value = 0
        for block in range(blocks):
            nodes.append(call("mul.Tensor", Ref(value), Ref(1 + 2 * block)))
            value = len(inputs) + len(nodes) - 1
            nodes.append(call("add.Tensor", Ref(value), Ref(2 + 2 * block)))
            value += 1
        return Graph(inputs, tuple(nodes), (value,))

    # 200 more blocks of two nodes and two weights: a few bytes in all, since each is written as the one before.
    assert len(encode(stack(210))) - len(encode(stack(10))) < 40


def test_codes_cover_every_dtype_and_role() -> None:
    from mindgap.graph import DTYPES
    from mindgap.graph.validation import ROLES

    assert set(DTYPE_CODES) == set(DTYPES) and len(set(DTYPE_CODES)) == len(DTYPE_CODES)
    assert ROLE_CODES == ROLES


def test_the_format_stands_still() -> None:
    """These bytes are what files out in the world hold: a change needs a new version."""
    assert graph_content(chain()).hex() == PINNED
    assert digest(chain()) == hashlib.sha256(bytes.fromhex(PINNED)).hexdigest()


PINNED = (
    "03116174656e2e72656c752e64656661756c740f6174656e2e6164642e54656e736f720f6174656e2e6d756c2e54656e736f"
    "72010f010400020000010000000000000000000000000000f03f0100000000000000000000000000000000f03f0200000100"
    "00030001030001010203030001020203030001030000000100020000010101010000"
)


def test_save_and_load(tmp_path: Path) -> None:
    save(chain(), tmp_path / "chain.graph")
    assert load(tmp_path / "chain.graph") == chain()
    assert load(str(tmp_path / "chain.graph")).labels == chain().labels


def test_load_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"nothing\.graph cannot be read: No such file"):
        load(tmp_path / "nothing.graph")
    (tmp_path / "bad.graph").write_bytes(b"PK\3\4")
    with pytest.raises(GraphError, match=r"bad\.graph: these bytes are no graph"):
        load(tmp_path / "bad.graph")


def test_a_graph_that_breaks_a_rule_is_not_written() -> None:
    broken = Graph((), (call("relu.default", Ref(0)),), ())
    for write in (encode, digest):
        with pytest.raises(GraphError, match="operand 0 refers to value 0, which comes later"):
            write(broken)


def test_a_graph_of_huge_literals_is_refused() -> None:
    spec = TensorSpec.contiguous("uint8", (MAX_CONTENT + 1,))
    with pytest.raises(GraphError, match="too large"):
        encode(Graph((Input(spec, Literal(bytes(spec.numel))),), (), ()))


def test_the_room_imports_no_framework() -> None:
    program = "import sys, mindgap.graph; print(sorted({'torch', 'onnx', 'jax', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
