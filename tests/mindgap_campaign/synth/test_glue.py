"""Glue gives exactly the tensor that it promises, whatever it is put between."""

from random import Random

import pytest
import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import spec_of, to_torch
from mindgap.graph import Graph, Input, Normal, TensorSpec, materialise_all, validate
from mindgap.graph.features import channels_last_stride
from mindgap_campaign.synth.merging.assembly import Assembly
from mindgap_campaign.synth.merging.fragment import Fragment, Parts, Piece
from mindgap_campaign.synth.merging.glue import (
    FLOATS,
    RowConversion,
    StandardRow,
    between,
    can_be_fed,
    can_feed,
    entering,
    leaving,
)
from mindgap_campaign.synth.regions.region import ValueStatistics

SHAPES = [(), (1,), (7,), (3, 5), (2, 1, 4), (1, 3, 8, 8), (2, 4, 1, 6), (2, 3, 2, 4, 5), (300,), (70_001,)]
GIVES = ValueStatistics(-9.0, 21.0, 6.0, 5.0)


def some_spec(rng: Random, *, sourced: bool) -> TensorSpec:
    """Row-major or channels-last; as a source also transposed."""
    shape = rng.choice(SHAPES[2:] if sourced else SHAPES)
    dtype = rng.choice(FLOATS)
    if channels_last_stride(shape) and rng.random() < 0.5:
        return TensorSpec(dtype, shape, channels_last_stride(shape))
    if sourced and len(shape) == 2 and rng.random() < 0.5:
        return TensorSpec(dtype, shape, (1, shape[0]))
    return TensorSpec.contiguous(dtype, shape)


def glued(
    source: TensorSpec, gives: ValueStatistics, target: TensorSpec, takes: ValueStatistics, conversion: RowConversion
) -> Graph:
    """The three stretches one after another, fed with values like `gives`."""
    out, have = leaving(source, gives)
    into, want = entering(target, takes)
    start = Graph((Input(source, Normal(3, gives.mean, gives.std)),), (), (0,))
    parts = Parts()
    pieces = [Piece(Fragment(start, parts))]
    at = (0, 0)
    for stretch in (out, between(have, want, conversion), into):
        pieces.append(Piece(Fragment(stretch, parts), {0: at}))
        at = (len(pieces) - 1, stretch.outputs[0])
    return Assembly(tuple(pieces), (at,)).graph()


def run(graph: Graph) -> tuple[torch.Tensor, list[TensorSpec]]:
    seen: list[TensorSpec] = []

    def look(_: int, results: list[torch.Tensor | None]) -> None:
        seen.extend(spec_of(tensor) for tensor in results if tensor is not None)

    tensors = [to_torch(array, one.spec) for array, one in zip(materialise_all(graph), graph.inputs, strict=True)]
    (result,) = Tape(graph).run(tensors, look)
    return result, seen


@pytest.mark.parametrize("seed", range(150))
def test_the_result_is_as_promised(seed: int) -> None:
    rng = Random(seed)
    source, target = some_spec(rng, sourced=True), some_spec(rng, sourced=False)
    takes = ValueStatistics(*rng.choice([(0.0, 1.0, 0.5, 0.29), (-3.0, 3.0, 0.0, 1.0), (1e-3, 70.0, 20.0, 9.0)]))
    graph = glued(source, GIVES, target, takes, RowConversion.of(rng.randrange(8)))
    validate(graph)
    result, seen = run(graph)
    assert seen == [spec for node in graph.nodes for spec in node.outputs]
    assert spec_of(result) == target
    exact = result.to(torch.float64)
    assert exact.min() >= takes.low - abs(takes.low) * 1e-2
    assert exact.max() <= takes.high + abs(takes.high) * 1e-2


def test_values_that_fit_are_only_kept_in_range() -> None:
    spec, span = TensorSpec.contiguous("float32", (4, 4)), ValueStatistics(-3.0, 3.0, 0.0, 1.0)
    graph = glued(spec, span, spec, span, RowConversion())
    assert [node.op for node in graph.nodes] == ["aten.reshape.default", "aten.clamp.default", "aten.reshape.default"]


def test_the_spread_is_brought_to_the_targets() -> None:
    source, target = TensorSpec.contiguous("float32", (5000,)), TensorSpec.contiguous("float32", (50, 100))
    result, _ = run(
        glued(
            source,
            ValueStatistics(-400.0, 900.0, 250.0, 100.0),
            target,
            ValueStatistics(-3.0, 3.0, 0.5, 0.7),
            RowConversion(),
        )
    )
    assert abs(result.mean().item() - 0.5) < 0.05
    assert abs(result.std().item() - 0.7) < 0.05


def test_parts_of_a_long_row_differ_and_short_rows_are_filled() -> None:
    long, short = StandardRow("float32", 16), StandardRow("float32", 4)
    begins = [between(long, short, RowConversion(part)).nodes[0].args[2] for part in range(5)]
    assert begins == [0, 4, 8, 12, 0]
    assert between(short, long, RowConversion(0, "repeat")).nodes[0].op == "aten.repeat.default"
    assert between(short, long, RowConversion(0, "pad")).nodes[0].op == "aten.constant_pad_nd.default"
    assert between(long, long, RowConversion(3)).nodes == ()


def test_a_way_is_one_number() -> None:
    assert [RowConversion.of(code).code for code in range(9)] == list(range(9))
    with pytest.raises(ValueError, match="no way"):
        RowConversion.of(-1)


@pytest.mark.parametrize(
    ("spec", "able"),
    [
        (TensorSpec.contiguous("float32", (2, 3)), True),
        (TensorSpec.contiguous("float32", ()), True),
        (TensorSpec("float32", (2, 3, 4, 5), (60, 1, 15, 3)), True),
        (TensorSpec("float32", (2, 3), (1, 2)), False),
        (TensorSpec("float32", (2, 3), (0, 1)), False),
        (TensorSpec.contiguous("int64", (2, 3)), False),
        (TensorSpec.contiguous("complex64", (2, 3)), False),
        (TensorSpec.contiguous("float8_e5m2", (2, 3)), False),
        (TensorSpec.contiguous("float32", (2, 0)), False),
    ],
)
def test_what_can_be_fed(spec: TensorSpec, able: bool) -> None:
    assert can_be_fed(spec, GIVES) is able
    assert not can_be_fed(spec, ValueStatistics(1.0, 1.0, 1.0, 0.0))


def test_what_can_feed() -> None:
    spec = TensorSpec.contiguous("float32", (2, 3))
    assert can_feed(spec, ValueStatistics(0.0, 1.0, 0.5, 0.2))
    assert not can_feed(spec, ValueStatistics(1.0, 1.0, 1.0, 0.0))
    assert not can_feed(spec, None)
    assert not can_feed(TensorSpec.contiguous("float32", (1,)), ValueStatistics(0.0, 1.0, 0.5, 0.2))
