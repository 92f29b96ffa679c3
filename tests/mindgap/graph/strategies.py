"""Hypothesis strategies for graphs that keep every rule; they need not be ones that run."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from mindgap.graph import (
    DTYPES,
    Arg,
    Constant,
    Device,
    DType,
    Exceptional,
    Graph,
    Input,
    Integers,
    Labels,
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
)
from mindgap.graph.recipe_rules import integer_range

names = st.text("abcdxyz_", min_size=1, max_size=6)
operators = st.one_of(
    st.sampled_from(["aten.add.Tensor", "aten.relu_.default", "aten.view.default", "aten.mul.Tensor"]),
    st.builds(lambda *parts: ".".join(parts), names, names, names),
)
seeds = st.one_of(st.integers(0, 40), st.integers(0, (1 << 128) - 1))
finite = st.floats(-1e6, 1e6)
#: math.nan itself, because Python finds tuples with two other NaNs unequal.
numbers = st.floats(allow_nan=False)
floats = st.one_of(st.floats(allow_nan=False), st.just(math.nan), st.sampled_from([0.0, -0.0, 1.0, 1e-5, math.inf]))


@st.composite
def specs(draw: st.DrawFn, kinds: tuple[str, ...] = ("float", "complex", "int", "bool")) -> TensorSpec:
    """Contiguous, permuted, expanded and otherwise strided specs of at most a few hundred elements."""
    dtype = draw(st.sampled_from([name for name, (kind, _) in DTYPES.items() if kind in kinds]))
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=4)))
    spec = TensorSpec.contiguous(dtype, shape)
    form = draw(st.sampled_from(["contiguous", "contiguous", "permuted", "expanded", "any"]))
    if form == "permuted":
        order = draw(st.permutations(range(len(shape))))
        stride = TensorSpec.contiguous(dtype, tuple(shape[i] for i in order)).stride
        return TensorSpec(dtype, shape, tuple(stride[order.index(i)] for i in range(len(shape))))
    if form == "expanded":
        return TensorSpec(dtype, shape, tuple(draw(st.sampled_from([0, step])) for step in spec.stride))
    if form == "any":
        return TensorSpec(dtype, shape, tuple(draw(st.integers(0, 12)) for _ in shape))
    return spec


@st.composite
def recipes(draw: st.DrawFn, spec: TensorSpec, stored: bool = True) -> Recipe:
    """A recipe that fits the spec."""
    choices: list[st.SearchStrategy[Recipe]] = [_constants(spec), _literals(spec)]
    if stored:
        choices.append(_STORED)
    if spec.kind in ("float", "complex"):
        bounds = st.tuples(finite, finite).filter(lambda pair: pair[0] < pair[1])
        choices += [
            st.builds(lambda seed, pair: Uniform(seed, *pair), seeds, bounds),
            st.builds(Normal, seeds, finite, st.floats(0, 1e6)),
            st.builds(Exceptional, seeds, st.floats(0, 1)),
        ]
    else:
        least, largest = integer_range(spec.dtype)
        whole = st.tuples(st.integers(least, largest), st.integers(least, largest)).map(sorted)
        choices.append(st.builds(lambda seed, pair: Integers(seed, pair[0], pair[1] + 1), seeds, whole))
    last = spec.shape[-1] if spec.shape else 1
    if spec.kind in ("int", "float") and not (last > 1 and spec.stride[-1] == 0) and last <= 4:
        choices.append(st.builds(Permutation, seeds))
    return draw(st.one_of(choices))


def _constants(spec: TensorSpec) -> st.SearchStrategy[Recipe]:
    if spec.kind in ("int", "bool"):
        return st.builds(Constant, st.integers(*integer_range(spec.dtype)))
    if spec.kind == "float":
        return st.builds(Constant, floats)
    return st.builds(Constant, st.one_of(floats, st.builds(complex, numbers, numbers)))


def _literals(spec: TensorSpec) -> st.SearchStrategy[Recipe]:
    size = min(spec.nbytes, 512)
    piece = st.binary(min_size=size, max_size=size)
    if spec.kind == "bool":
        piece = piece.map(lambda data: bytes(byte & 1 for byte in data))
    return piece.map(lambda data: Literal((data * (spec.nbytes // max(size, 1) + 1))[: spec.nbytes]))


_STORED = st.binary(min_size=32, max_size=32).map(lambda key: Stored(key.hex()))
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
#: Arguments of every sort. References are any number: `_resolved` makes them values that there are.
_ARGUMENTS: st.SearchStrategy[Arg] = st.recursive(
    st.one_of(
        st.integers(0, 1000).map(Ref), st.integers(0, 1000).map(Ref), st.none(), st.booleans(), st.integers(-20, 300),
        st.integers(-(1 << 200), 1 << 200), floats, st.builds(complex, numbers, numbers), _TEXT,
        st.sampled_from(list(DTYPES)).map(DType),
        st.sampled_from(["contiguous_format", "channels_last", "preserve_format"]).map(MemoryFormat),
        st.just(Layout("strided")), st.just(Device()),
    ),
    lambda inner: st.lists(inner, max_size=4).map(tuple),
    max_leaves=6,
)  # fmt: skip
_POSITIONAL = st.lists(_ARGUMENTS, max_size=4)
_KEYWORDS = st.dictionaries(names, _ARGUMENTS, max_size=2)


def _resolved(arg: Arg, usable: list[int]) -> Arg:
    if isinstance(arg, Ref):
        return Ref(usable[arg.index % len(usable)]) if usable else None
    return tuple(_resolved(item, usable) for item in arg) if isinstance(arg, tuple) else arg


@st.composite
def graphs(draw: st.DrawFn, max_inputs: int = 5, max_nodes: int = 8, stored: bool = True) -> Graph:
    """Valid graphs with labels or without."""
    inputs: list[Input] = []
    for _ in range(draw(st.integers(0, max_inputs))):
        spec = draw(specs())
        role = draw(st.sampled_from(["input", "parameter", "buffer", "constant", "random"]))
        inputs.append(Input(spec, draw(recipes(spec, stored)), role))
    values: list[TensorSpec | None] = [given.spec for given in inputs]
    nodes: list[Node] = []
    for _ in range(draw(st.integers(0, max_nodes))):
        usable = [number for number, spec in enumerate(values) if spec is not None]
        args = tuple(_resolved(arg, usable) for arg in draw(_POSITIONAL))
        kwargs = tuple((name, _resolved(arg, usable)) for name, arg in sorted(draw(_KEYWORDS).items()))
        pool = [st.none(), specs()] + ([st.sampled_from([s for s in values if s is not None])] * 2 if usable else [])
        outputs = tuple(draw(st.lists(st.one_of(pool), max_size=3)))
        nodes.append(Node(draw(operators), args, kwargs, outputs))
        values.extend(outputs)
    usable = [number for number, spec in enumerate(values) if spec is not None]
    outputs = tuple(draw(st.lists(st.sampled_from(usable), max_size=4))) if usable else ()
    floating = [number for number, given in enumerate(inputs) if given.spec.kind in ("float", "complex")]
    grad = tuple(draw(st.lists(st.sampled_from(floating), unique=True))) if floating else ()
    graph = Graph(tuple(inputs), tuple(nodes), outputs, grad)
    return Graph(graph.inputs, graph.nodes, outputs, grad, draw(_labels(graph)))


@st.composite
def _labels(draw: st.DrawFn, graph: Graph) -> Labels:
    def some(number: int) -> tuple[str, ...]:
        return tuple(draw(_TEXT) for _ in range(number)) if draw(st.booleans()) else ()

    return Labels(some(len(graph.inputs)), some(len(graph.nodes)), some(len(graph.outputs)))
