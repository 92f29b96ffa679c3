"""An operator takes the place of another one where its schema fits."""

from __future__ import annotations

import pytest

from mindgap.findings.causes.inner_operators import inner_functions
from mindgap.findings.causes.swapping import swapped
from mindgap.graph import Graph, Input, Node, Normal, Ref, TensorSpec, contiguous_stride


def spec(*shape: int) -> TensorSpec:
    return TensorSpec("float32", shape, contiguous_stride(shape))


def graph(op: str, *args: object, inputs: tuple[tuple[int, ...], ...] = ((2, 3, 8),), **kwargs: object) -> Graph:
    """A graph of one call. Operands come first; its result's spec is that of the first one."""
    given = tuple(Input(spec(*shape), Normal(0)) for shape in inputs)
    operands = tuple(map(Ref, range(len(inputs))))
    node = Node(f"aten.{op}", (*operands, *args), tuple(sorted(kwargs.items())), (given[0].spec,))  # pyright: ignore[reportArgumentType]
    return Graph(given, (node,), (len(given),))


def test_a_unary_operator_takes_the_place_of_another_one() -> None:
    before = graph("log1p.default")
    after = swapped(before, "aten.log1p.default", "aten.atanh.default")
    assert after == graph("atanh.default")
    assert swapped(before, "aten.log1p.default", "aten.add.Tensor") is None, "it needs another operand"
    assert swapped(graph("add.Tensor", inputs=((2,), (2,))), "aten.add.Tensor", "aten.log1p.default") is None
    assert swapped(before, "aten.exp.default", "aten.sin.default") is None, "it is not there"


def test_attributes_go_by_name_and_one_without_a_place_must_have_its_default() -> None:
    assert swapped(graph("softmax.int", -1), "aten.softmax.int", "aten.log_softmax.int") == graph("log_softmax.int", -1)
    before = graph("add.Tensor", inputs=((2,), (2,)), alpha=2)
    assert swapped(before, "aten.add.Tensor", "aten.sub.Tensor") == graph("sub.Tensor", inputs=((2,), (2,)), alpha=2)
    assert swapped(before, "aten.add.Tensor", "aten.mul.Tensor") is None, "alpha would be lost"
    plain = graph("add.Tensor", inputs=((2,), (2,)), alpha=1)
    assert swapped(plain, "aten.add.Tensor", "aten.mul.Tensor") == graph("mul.Tensor", inputs=((2,), (2,)))


def test_the_variant_for_one_dimension_more_gets_a_dimension_of_size_one() -> None:
    before = graph("avg_pool2d.default", (2, 2), (2, 2), (0, 1), False, True, 3, inputs=((1, 2, 8, 8),))
    after = swapped(before, "aten.avg_pool2d.default", "aten.avg_pool3d.default")
    assert after is not None and after.inputs[0].spec == spec(1, 2, 1, 8, 8)
    assert after.nodes[0].args == (Ref(0), (1, 2, 2), (1, 2, 2), (0, 0, 1), False, True, 3)
    assert inner_functions(after) == ("avg_pool3d",), "PyTorch runs it"
    assert swapped(after, "aten.avg_pool3d.default", "aten.avg_pool2d.default") is None, "only upwards"


@pytest.mark.parametrize(
    ("made", "inner"),
    [
        (graph("fft_ifftshift.default"), ("roll",)),
        (graph("linalg_norm.default"), ("linalg_vector_norm",)),
        (graph("max_pool1d.default", (2,)), ("max_pool2d",)),
        (graph("fft_ihfft.default"), ("fft_r2c",)),
        (graph("fft_ifft2.default"), ("fft_c2c",)),
        (graph("diag.default", inputs=((3, 3),)), ("diagonal",)),
        (graph("conv1d.default", inputs=((1, 3, 8), (3, 3, 2))), ("convolution",)),
        (graph("conv_transpose1d.default", inputs=((1, 3, 8), (3, 3, 2))), ("transposed convolution",)),
        (graph("view.default", (6, 8)), ("view",)),
        (graph("add.Tensor", inputs=((2,), (3,))), ()),
    ],
)
def test_a_composite_runs_as_its_inner_operators(made: Graph, inner: tuple[str, ...]) -> None:
    assert inner_functions(made) == inner
