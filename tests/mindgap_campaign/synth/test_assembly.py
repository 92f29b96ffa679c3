"""Assembling graphs from pieces: the spliced bytes are those of the graph built node by node."""

from __future__ import annotations

import pickle
import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from graph.samples import F4, call, chain
from graph.strategies import graphs
from mindgap.graph import (
    Arg,
    Constant,
    Device,
    DType,
    Exceptional,
    Graph,
    GraphError,
    Input,
    Integers,
    Layout,
    Literal,
    MemoryFormat,
    Node,
    Normal,
    Permutation,
    Recipe,
    Ref,
    Stored,
    TensorSpec,
    Uniform,
    decode,
    digest,
    encode,
    renumbered,
    validate,
)
from mindgap.graph.encoder import graph_content
from mindgap_campaign.synth.merging.assembly import Assembly
from mindgap_campaign.synth.merging.fragment import SEED_BYTES, Fragment, Parts, Piece, Source

ROLES = ("input", "parameter", "buffer", "constant", "random")
SPECS = (
    F4,
    TensorSpec.contiguous("float32", (2, 3)),
    TensorSpec("float32", (2, 3), (1, 2)),
    TensorSpec.contiguous("int64", (4,)),
    TensorSpec.contiguous("bool", ()),
    TensorSpec.contiguous("bfloat16", (0, 3)),
)
#: Both limits are of wall time, which says nothing on a machine with other work.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
PARTS = Parts()
#: What fragments were made of: they do not hold it.
GRAPHS: dict[Fragment, Graph] = {}
WORDS = ("none", "tanh", "ünï", "", "aten.relu.default")


def prepared(graph: Graph) -> Fragment:
    made = Fragment(graph, PARTS)
    GRAPHS[made] = graph
    return made


def plainly(assembly: Assembly) -> Graph:
    """The graph, put together node by node."""
    inputs: list[Input] = []
    nodes: list[Node] = []
    graphs = [GRAPHS[piece.fragment] for piece in assembly.pieces]
    fed = sum(len(piece.feeds) for piece in assembly.pieces)
    next_slot = sum(len(graph.inputs) for graph in graphs) - fed
    renumber: list[dict[int, int]] = []
    for piece, graph in zip(assembly.pieces, graphs, strict=True):
        own: dict[int, int] = {}
        for number, own_input in enumerate(graph.inputs):
            if number in piece.feeds:
                source, value = piece.feeds[number]
                own[number] = renumber[source][value]
            else:
                own[number] = len(inputs)
                inputs.append(own_input)
        for value in range(len(graph.inputs), len(graph.values)):
            own[value] = next_slot
            next_slot += 1
        nodes += [renumbered(node, own) for node in graph.nodes]
        renumber.append(own)
    return Graph(tuple(inputs), tuple(nodes), tuple(renumber[piece][value] for piece, value in assembly.outputs))


def agrees(assembly: Assembly) -> Graph:
    """The graph, after it was seen to be what the plain way gives, in objects and in bytes."""
    graph = plainly(assembly)
    validate(graph)
    assert repr(assembly.graph()) == repr(graph)
    for made in (assembly, pickle.loads(pickle.dumps(Assembly(assembly.pieces, assembly.outputs)))):
        assert made.content() == graph_content(graph)
        assert made.encode() == encode(graph)
        assert made.digest() == digest(graph)
    assert repr(decode(assembly.encode())) == repr(graph)
    return graph


def drawn_recipe(draw: random.Random, spec: TensorSpec) -> Recipe:
    """A recipe of any kind, most with a seed of any width."""
    seed = draw.getrandbits(draw.choice([1, 8, 16, 32, 64, 65, 8 * SEED_BYTES]) if draw.random() < 0.3 else 32)
    if draw.random() < 0.2:
        return draw.choice(
            [Stored(draw.randbytes(32).hex()), Literal(bytes(spec.nbytes)), Constant(draw.choice([0, 1]))]
        )
    if spec.kind == "float":
        return draw.choice([Uniform(seed), Normal(seed, 0.0, draw.choice([1.0, 2.0])), Exceptional(seed)])
    return (
        Integers(seed, 0, draw.choice([1, 2]))
        if spec.kind == "bool"
        else draw.choice([Integers(seed, -(1 << 40), 1 << 40), Permutation(seed)])
    )


def drawn_argument(draw: random.Random, usable: list[int], depth: int = 0) -> Arg:
    """References mostly, alone and in tuples, and now and then anything else."""
    chance = draw.random()
    if usable and chance < 0.6:
        # Early values too, so that references go back far enough for two bytes.
        return Ref(draw.choice(usable if draw.random() < 0.5 else usable[-4:]))
    if chance < 0.75 and depth < 3:
        return tuple(drawn_argument(draw, usable, depth + 1) for _ in range(draw.randrange(4)))
    return draw.choice(
        [None, True, draw.randrange(-300, 300), 1 << 70, draw.choice([0.0, -0.0, 1.5, 3.0]), 1j, draw.choice(WORDS),
         DType("float16"), MemoryFormat("channels_last"), Layout("strided"), Device()]
    )  # fmt: skip


def drawn_graph(draw: random.Random, nodes: int, operators: int) -> Graph:
    """A valid graph of up to so many nodes, by any of so many operators."""
    inputs: list[Input] = []
    for _ in range(draw.randrange(7)):
        spec = draw.choice(SPECS)
        inputs.append(Input(spec, drawn_recipe(draw, spec), draw.choice(ROLES)))
    values: list[TensorSpec | None] = [given.spec for given in inputs]
    made: list[Node] = []
    for _ in range(draw.randrange(nodes + 1)):
        usable = [number for number, spec in enumerate(values) if spec is not None]
        args = tuple(drawn_argument(draw, usable) for _ in range(draw.randrange(4)))
        names = sorted({draw.choice(["alpha", "beta", "out", "x"]) for _ in range(draw.randrange(3))})
        kwargs = tuple((name, drawn_argument(draw, usable)) for name in names)
        outputs = tuple(draw.choice([*SPECS, None]) for _ in range(draw.choice([0, 1, 1, 1, 1, 3])))
        made.append(Node(f"aten.op{draw.randrange(operators)}.default", args, kwargs, outputs))
        values.extend(outputs)
    return Graph(tuple(inputs), tuple(made), ())


def drawn_assembly(draw: random.Random, fragments: list[Fragment], pieces: int) -> Assembly:
    """Pieces that are often the same fragment again, fed wherever an earlier value fits."""
    chosen: list[Piece] = []
    sources: dict[TensorSpec | None, list[Source]] = {}
    for index in range(pieces):
        fragment = draw.choice(fragments)
        feeds: dict[int, Source] = {}
        for number, wanted in enumerate(fragment.values[: fragment.sizes[0]]):
            fitting = sources.get(wanted)
            if fitting and draw.random() < 0.5:
                # The latest too, so that there are chains of inputs that are fed from inputs that are fed.
                feeds[number] = draw.choice(fitting if draw.random() < 0.5 else fitting[-3:])
        chosen.append(Piece(fragment, feeds))
        for value, spec in enumerate(fragment.values):
            sources.setdefault(spec, []).append((index, value))
    shown = [source for spec, found in sources.items() if spec is not None for source in found]
    outputs = tuple(draw.choices(shown, k=draw.randrange(6))) if shown else ()
    return Assembly(tuple(chosen), outputs)


@pytest.mark.parametrize("seed", range(150))
def test_pieces_of_all_kinds(seed: int) -> None:
    draw = random.Random(seed)
    fragments = [prepared(drawn_graph(draw, 6, 5)) for _ in range(draw.randrange(1, 8))]
    agrees(drawn_assembly(draw, fragments, draw.randrange(12)))


@pytest.mark.parametrize("seed", range(2))
def test_tables_too_long_for_a_byte(seed: int) -> None:
    draw = random.Random(seed)
    fragments = [prepared(drawn_graph(draw, 30, 400)) for _ in range(40)]
    unlike = [TensorSpec.contiguous("int8", (size, 1)) for size in range(1100)]
    inputs = tuple(Input(spec, Constant(number % 7), "buffer") for number, spec in enumerate(unlike[:150]))
    nodes = tuple(call(f"f{size}.default", Ref(size // 2), spec=spec) for size, spec in enumerate(unlike))
    last = Piece(prepared(Graph(inputs, nodes, ())))
    graph = agrees(Assembly((*drawn_assembly(draw, fragments, 60).pieces, last, last), ((60, 0), (61, 200))))
    assert len({node.op for node in graph.nodes}) > 500
    assert len(set(graph.values)) > 300
    assert len({repr(given) for given in graph.inputs}) > 150


def test_distances_too_long_for_two_bytes() -> None:
    far = Graph(chain().inputs, tuple(call("relu.default", Ref(0)) for _ in range(3000)), ())
    near = Graph((Input(F4, Normal(9)),) * 2, (call("add.Tensor", Ref(0), Ref(1)),) * 3, ())
    graph = agrees(Assembly((Piece(prepared(far)), Piece(prepared(near), {0: (0, 2), 1: (0, 1)})), ((1, 2), (0, 5))))
    assert graph.nodes[-1].args == (Ref(2), Ref(1))


@pytest.mark.nightly
@given(st.lists(graphs(max_inputs=4, max_nodes=4), min_size=1, max_size=3), st.randoms(use_true_random=False))
@settings(PATIENT, max_examples=60)
def test_pieces_of_any_graph(parts: list[Graph], draw: random.Random) -> None:
    agrees(drawn_assembly(draw, [prepared(part) for part in parts], 6))


@given(graphs())
@settings(PATIENT, max_examples=30)
def test_one_piece_alone_is_its_graph(part: Graph) -> None:
    whole = Assembly((Piece(prepared(part)),), tuple((0, value) for value in part.outputs))
    assert agrees(whole) == replace(part, grad=())


def test_nothing() -> None:
    assert agrees(Assembly((), ())) == Graph((), (), ())
    empty = prepared(Graph((), (), ()))
    assert agrees(Assembly((Piece(empty), Piece(empty)), ())) == Graph((), (), ())


def test_fed_inputs_vanish_and_their_readers_read_the_source() -> None:
    part = prepared(chain())
    graph = agrees(
        Assembly((Piece(part), Piece(part, {0: (0, 4)}), Piece(part, {1: (1, 0), 0: (1, 1)})), ((2, 0), (2, 4)))
    )
    x, w = chain().inputs
    assert graph.inputs == (x, w, w)
    wiring = [tuple(arg.index for arg in node.args if isinstance(arg, Ref)) for node in graph.nodes]
    assert wiring == [(0,), (3, 1), (4, 4), (5,), (6, 2), (7, 7), (2,), (9, 5), (10, 10)]
    assert graph.outputs == (2, 11)


def test_an_input_fed_through_many_is_the_first_source() -> None:
    through = prepared(Graph((Input(F4, Normal(3)),), (), ()))
    pieces = [Piece(prepared(chain()))] + [Piece(through, {0: (index, 0 if index else 4)}) for index in range(200)]
    graph = agrees(Assembly(tuple(pieces), ((200, 0), (0, 0))))
    assert graph == replace(chain(), outputs=(4, 0))


@pytest.mark.parametrize("widths", [(0,), (1, 8), (9,), (64,), (65, 3), (128, 128), ()])
def test_seeds_of_all_widths_less_their_places(widths: tuple[int, ...]) -> None:
    inputs = tuple(Input(F4, Normal((1 << width) - 1)) for width in widths)
    unseeded = Input(F4, Constant(1.0))
    pieces = (Piece(prepared(Graph((unseeded,) * 300, (), ()))), Piece(prepared(Graph((*inputs, unseeded), (), ()))))
    # Numbers above 255 borrow from the higher bytes.
    assert agrees(Assembly(pieces * 2, ())).inputs[300 : 300 + len(inputs)] == inputs


def test_the_widest_seed_counts_only_where_its_input_is_kept() -> None:
    wide, narrow = (
        prepared(Graph((Input(F4, Normal(seed)),), (call("relu.default", Ref(0)),), ())) for seed in (1 << 99, 5)
    )
    both = agrees(Assembly((Piece(narrow), Piece(wide)), ()))
    fed = agrees(Assembly((Piece(narrow), Piece(wide, {0: (0, 1)})), ()))
    assert len(graph_content(both)) > len(graph_content(fed)) + 20


def test_a_graph_that_breaks_a_rule_is_no_fragment() -> None:
    with pytest.raises(GraphError, match="operand 0 refers to value 0, which comes later"):
        prepared(Graph((), (call("relu.default", Ref(0)),), ()))


def test_fragments_of_different_tables() -> None:
    apart = Assembly((Piece(prepared(chain())), Piece(Fragment(chain(), Parts()))), ())
    with pytest.raises(GraphError, match="pieces 0 and 1 were not made with one `Parts`"):
        apart.content()


BOOL = TensorSpec.contiguous("bool", (4,))
PART = prepared(
    Graph(
        (Input(F4, Normal(0)), Input(BOOL, Constant(True))),
        (Node("aten.f.default", (Ref(0),), (), (F4, None, TensorSpec("float32", (4,), (2,)))),),
        (),
    )
)


@pytest.mark.parametrize(
    ("feeds", "outputs", "message"),
    [
        ({2: (0, 0)}, (), "piece 1 has no input 2 to feed, it has 2"),
        ({-1: (0, 0)}, (), "piece 1 has no input -1"),
        ({0: (1, 2)}, (), "piece 1 is fed from piece 1, which is none of the 1 before it"),
        ({0: (-1, 0)}, (), "piece 1 is fed from piece -1"),
        ({0: (0, 5)}, (), "piece 0 has no value 5 to feed piece 1, it has 5"),
        ({0: (0, -1)}, (), "piece 0 has no value -1"),
        ({0: (0, 3)}, (), "piece 1 is fed value 3 of piece 0, an empty slot"),
        (
            {0: (0, 1)},
            (),
            r"input 0 of piece 1 is float32\[4\] with stride \(1,\), but value 1 of piece 0 is bool\[4\]",
        ),
        ({1: (0, 2)}, (), r"input 1 of piece 1 is bool\[4\] with stride"),
        ({0: (0, 4)}, (), r"value 4 of piece 0 is float32\[4\] with stride \(2,\)"),
        ({}, ((2, 0),), "output 0 is of piece 2, but there are 2 pieces"),
        ({}, ((0, 2), (-1, 0)), "output 1 is of piece -1"),
        ({}, ((1, 5),), "output 0 is value 5 of piece 1, which has 5"),
        ({}, ((1, 3),), "output 0 is value 3 of piece 1, an empty slot"),
    ],
)
def test_pieces_that_do_not_fit(feeds: dict[int, Source], outputs: tuple[Source, ...], message: str) -> None:
    assembly = Assembly((Piece(PART), Piece(PART, feeds)), outputs)
    for way in (assembly.graph, assembly.content, assembly.encode, assembly.digest):
        with pytest.raises(GraphError, match=message):
            way()
