"""Glue gives exactly the tensor that it promises, whatever it is put between."""

from random import Random

import pytest
import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import spec_of, to_torch
from mindgap.graph import Graph, Input, Normal, TensorSpec, materialise_all, validate
from mindgap.synth.coverage import channels_last_stride
from mindgap.synth.glue import Way, can_be_fed, can_feed, glue
from mindgap.synth.region import Span

SHAPES = [(), (1,), (7,), (3, 5), (2, 1, 4), (1, 3, 8, 8), (2, 4, 1, 6), (2, 3, 2, 4, 5), (300,), (70_001,)]


def some_spec(rng: Random, *, sourced: bool) -> TensorSpec:
    """Row-major or channels-last; as a source also transposed."""
    shape = rng.choice(SHAPES[1:] if sourced else SHAPES)
    dtype = rng.choice(["float32", "float64", "bfloat16", "float16"])
    spec = TensorSpec.contiguous(dtype, shape)
    if channels_last_stride(shape) and rng.random() < 0.5:
        return TensorSpec(dtype, shape, channels_last_stride(shape))
    if sourced and len(shape) == 2 and rng.random() < 0.5:
        return TensorSpec(dtype, shape, (1, shape[0]))
    return spec


@pytest.mark.parametrize("seed", range(150))
def test_the_result_is_as_promised(seed: int) -> None:
    rng = Random(seed)
    source, target = some_spec(rng, sourced=True), some_spec(rng, sourced=False)
    gives = Span(-9.0, 21.0, 6.0, 5.0)
    takes = Span(*rng.choice([(0.0, 1.0, 0.5, 0.29), (-3.0, 3.0, 0.0, 1.0), (1e-3, 70.0, 20.0, 9.0)]))
    made = glue(source, gives, target, takes, Way(rng.random(), rng.choice(["pad", "repeat"])))
    assert made is not None
    given = Graph((Input(source, Normal(seed, 6.0, 5.0)),), made.nodes, made.outputs)
    validate(given)
    seen: list[TensorSpec] = []

    def look(_: int, results: list[torch.Tensor | None]) -> None:
        seen.extend(spec_of(tensor) for tensor in results if tensor is not None)

    tensors = [to_torch(array, one.spec) for array, one in zip(materialise_all(given), given.inputs, strict=True)]
    (result,) = Tape(given).run(tensors, look)
    assert seen == [spec for node in given.nodes for spec in node.outputs]
    assert spec_of(result) == target
    exact = result.to(torch.float64)
    assert exact.min() >= takes.low - abs(takes.low) * 1e-2
    assert exact.max() <= takes.high + abs(takes.high) * 1e-2


def test_values_that_fit_are_only_kept_in_range() -> None:
    spec, span = TensorSpec.contiguous("float32", (4, 4)), Span(-3.0, 3.0, 0.0, 1.0)
    made = glue(spec, span, spec, span, Way())
    assert made is not None
    assert [node.op for node in made.nodes] == ["aten.clamp.default"]


def test_the_spread_is_brought_to_the_targets() -> None:
    source, target = TensorSpec.contiguous("float32", (5000,)), TensorSpec.contiguous("float32", (50, 100))
    made = glue(source, Span(-400.0, 900.0, 250.0, 100.0), target, Span(-3.0, 3.0, 0.5, 0.7), Way())
    assert made is not None
    given = Graph((Input(source, Normal(1, 250.0, 100.0)),), made.nodes, made.outputs)
    (result,) = Tape(given).run([to_torch(array) for array in materialise_all(given)])
    assert abs(result.mean().item() - 0.5) < 0.05
    assert abs(result.std().item() - 0.7) < 0.05


@pytest.mark.parametrize(
    ("spec", "able"),
    [
        (TensorSpec.contiguous("float32", (2, 3)), True),
        (TensorSpec.contiguous("float32", ()), True),
        (TensorSpec("float32", (2, 3, 4, 5), (60, 1, 15, 3)), True),
        (TensorSpec("float32", (2, 3), (1, 2)), False),
        (TensorSpec("float32", (2, 3), (0, 1)), False),
        (TensorSpec.contiguous("int64", (2, 3)), False),
        (TensorSpec.contiguous("float8_e5m2", (2, 3)), False),
        (TensorSpec.contiguous("float32", (2, 0)), False),
    ],
)
def test_what_can_be_fed(spec: TensorSpec, able: bool) -> None:
    assert can_be_fed(spec) is able


def test_what_can_feed() -> None:
    spec = TensorSpec.contiguous("float32", (2, 3))
    assert can_feed(spec, Span(0.0, 1.0, 0.5, 0.2))
    assert not can_feed(spec, Span(1.0, 1.0, 1.0, 0.0))
    assert not can_feed(spec, None)
