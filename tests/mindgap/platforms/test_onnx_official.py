"""ONNX Runtime through `torch.onnx.export`, as its users go: the same operators and results as the fast way."""

from collections import Counter

import numpy as np
import onnx
import pytest
import torch

from mindgap.platforms.onnx.export import export
from mindgap.platforms.onnx.official_export import export_official
from mindgap.platforms.onnxruntime.backend import BACKEND
from mindgap.platforms.protocol import CompileFailure, PlatformError, Unsupported
from platforms.onnx_graphs import captured, eager, normal, vit


@pytest.fixture(scope="module")
def official():
    return BACKEND.open({"export": "official"})


@pytest.fixture(scope="module")
def direct():
    return BACKEND.open({})


def operators(model: bytes) -> Counter:
    return Counter(node.op_type for node in onnx.load_from_string(model).graph.node)


def convolutions():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.GELU()).eval()


def indexing(x, chosen):
    return x[:, chosen].cumsum(1), x.topk(2, dim=0).values, torch.where(x > 0, x, 0.5)


def updates(x):
    y = x * 2
    y[1].add_(5)
    return y


def views(x):
    first, second = torch.chunk(x, 2, 1)
    return (x.flatten(1), x.unflatten(1, (2, 2)), first.contiguous(), second.reshape(-1), x.narrow(1, 0, 2), x.mT + 0,
            torch.broadcast_to(x, (3, *x.shape)))  # fmt: skip


PROGRAMS = {
    "views": (views, (normal(3, 4, 5),)),
    # ONNX's Reshape takes a size of zero from its input, unless it is told otherwise.
    "views of nothing": (lambda x: x.flatten(1), (normal(1, 1, 0),)),
    "convolutions": (convolutions(), (normal(1, 2, 6, 6),)),
    "indexing": (indexing, (normal(3, 4), torch.tensor([2, 0]))),
    "updates": (updates, (normal(3, 4),)),
    "attention": (
        torch.nn.functional.scaled_dot_product_attention,
        tuple(normal(1, 2, 4, 8, seed=s) for s in range(3)),
    ),
    "complex": (lambda x: x * x, (torch.ones(3, dtype=torch.complex64),)),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_both_ways_write_the_same_operators_and_give_the_same_bits(official, direct, name):
    program, args = PROGRAMS[name]
    graph, inputs = captured(program, *args)
    assert operators(export_official(graph, inputs).model) == operators(export(graph, inputs).model)
    found, fast = (platform.load(graph, inputs)(inputs) for platform in (official, direct))
    for ours, theirs, expected in zip(found, fast, eager(graph, inputs), strict=True):
        assert (ours.dtype, ours.tobytes()) == (theirs.dtype, theirs.tobytes())
        np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_a_model_comes_out_as_its_module_is_exported():
    model, example = vit()
    graph, inputs = captured(model, example)
    users = torch.onnx.export(model, (example,), dynamo=True, verbose=False).model_proto.SerializeToString()
    assert operators(export_official(graph, inputs).model) == operators(users)


def test_outputs_may_be_inputs_and_repeat(official):
    graph, inputs = captured(lambda x: (lambda y: (y, y, x))(x + 1), normal(3))
    for ours, theirs in zip(official.load(graph, inputs)(inputs), eager(graph, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_missing_translation_is_a_refusal_by_the_operator_that_was_called(official):
    graph, inputs = captured(torch.erfinv, torch.tensor([0.5]))
    with pytest.raises(Unsupported) as refused:
        official.load(graph, inputs)
    assert refused.value.op == "aten.erfinv.default"


def test_a_translation_that_breaks_names_the_operator(official):
    """`amin` of a number without dimensions: the exporter leaves out an argument that its translation requires."""
    graph, inputs = captured(lambda x: (x + 1).amin(), torch.tensor(2.0))
    with pytest.raises(CompileFailure, match=r"torch.onnx.export failed: aten\.amin\.default: "):
        official.load(graph, inputs)


def test_a_refusal_of_the_runtime_names_the_operator_that_was_called(official):
    graph, inputs = captured(lambda x: (x + 1) * x, normal(3, dtype=torch.bfloat16))
    with pytest.raises(Unsupported) as refused:
        official.load(graph, inputs)
    assert refused.value.op in ("aten.add.Tensor", "aten.mul.Tensor")


def test_the_way_is_said_and_checked(official, direct):
    assert "torch.onnx.export(dynamo=True)" in official.describe()["exporter"]
    assert official.describe()["exporter"] != direct.describe()["exporter"]
    with pytest.raises(PlatformError):
        BACKEND.environment({"export": "dynamo"})


def test_interpolation_with_sizes_and_scales_is_the_exporters_on_both_ways(official, direct):
    """The exporter takes `upsample_bicubic2d` apart, and so must the direct way (`benchmarks/wild`, seed 77)."""
    graph, inputs = captured(
        lambda x: torch.ops.aten.upsample_bicubic2d.default(x, [3, 3], False, 1.7, 0.9), normal(1, 1, 10, 20)
    )
    exact = torch.ops.aten.upsample_bicubic2d.default(torch.from_numpy(inputs[0]).double(), [3, 3], False, 1.7, 0.9)
    for platform in (official, direct):
        (found,) = platform.load(graph, inputs)(inputs)
        assert abs(found - exact.numpy()).max() < 1e-5
