"""What triggers a fault: by checks that need no platform, and by faults of real ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from mindgap.findings.reduction import Answer
from mindgap.findings.reduction.condition import TriggerCondition, condition_of
from mindgap.findings.reduction.specification import specified_in_worker
from mindgap.findings.reduction.symptom import check_of, symptom_of
from mindgap.graph import Graph, Input, Normal, TensorStore, Uniform, materialise, validate
from mindgap.graph_capture import capture
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.platforms.name import parse
from mindgap.results.rows import Row

ONE = torch.ones(1, 1)


def shape(graph: Graph) -> tuple[int, ...]:
    return graph.inputs[0].spec.shape


def values(given: Input, store: TensorStore) -> Any:
    return materialise(given, store)


@pytest.mark.parametrize(
    ("program", "argument", "shows", "phrase"),
    [
        (torch.sin, torch.tensor(1.0), lambda g, _: shape(g) == (), "0-d input"),
        (torch.sin, ONE, lambda g, _: len(shape(g)) >= 2, "input of 2 dimensions or more"),
        (torch.sin, torch.ones(1), lambda g, _: len(shape(g)) <= 1, "input of at most 1 dimension"),
        (torch.sin, torch.ones(0, 2), lambda g, _: 0 in shape(g), "an empty input"),
        (torch.sin, ONE, lambda g, _: max(shape(g), default=1) == 1, "dimensions of size 1"),
        (torch.sin, ONE, lambda g, _: g.inputs[0].spec.dtype == "float32", "dtype float32 only"),
        (torch.sin, ONE, lambda g, _: g.inputs[0].spec.dtype in ("float32", "bfloat16"), "dtype float32 or bfloat16"),
        (torch.sin, ONE * 2e4, lambda g, s: abs(values(g.inputs[0], s)).max(initial=0) > 100, "large values (1e4)"),
        (torch.sin, ONE, lambda *_: True, "any input tried"),
        (torch.sin, torch.ones(3, 2).t(), lambda g, _: g.inputs[0].spec.stride[-1:] == (2,), "transposed input"),
        (lambda x: torch.add(x, x, alpha=0), ONE, lambda g, _: dict(g.nodes[0].kwargs).get("alpha", 1) != 1,
         "`alpha` other than 1"),
        (lambda x: torch.sum(x, -1), ONE, lambda g, _: g.nodes[0].args[1] == (-1,), "any input tried"),
        (lambda x: torch.cumsum(x, -1), ONE, lambda g, _: g.nodes[0].args[1] == -1, "negative `dim`"),
        (lambda x: torch.argmax(x, 0), ONE, lambda g, _: len(g.nodes[0].args) < 3 and not g.nodes[0].kwargs,
         "`keepdim=False`"),
        (lambda x: F.avg_pool2d(x, 1, divisor_override=2), torch.ones(1, 1, 1, 1),
         lambda g, _: len(g.nodes[0].args) > 6 and g.nodes[0].args[6] is not None, "with `divisor_override`"),
        (lambda x: F.conv2d(x, torch.ones(1, 1, 1, 1)), torch.ones(1, 1, 1),
         lambda g, _: len(shape(g)) == 3,
         "input without a batch dimension"),
    ],
)  # fmt: skip
def test_the_phrase_is_what_showing_neighbours_share(
    program: Callable[..., Any], argument: torch.Tensor, shows: Callable[..., bool], phrase: str, tmp_path: Any
) -> None:
    store = TensorStore(tmp_path)
    graph = capture(program, (argument,), tensors=store)
    found = condition_of(graph, lambda g: "shows" if shows(g, store) else "calm", store)
    assert found.complete and found.phrase == phrase, found


def test_a_natural_graph_has_ordinary_sizes_values_and_attributes(tmp_path: Any) -> None:
    store = TensorStore(tmp_path)
    graph = capture(lambda x: torch.add(x, x, alpha=0.0), (torch.zeros(1, 1),), tensors=store)
    found = condition_of(graph, lambda _: "shows", store).natural
    assert found is not None and shape(found) == (4, 8) and isinstance(found.inputs[0].recipe, Uniform | Normal)
    validate(found)
    graph = capture(lambda x: torch.sin(x), (torch.zeros(1, 1),), tensors=store)
    assert condition_of(graph, lambda g: "shows" if shape(g) == (1, 1) else "calm", store).natural is None


def test_it_ends_at_its_limits_and_takes_no_invalid_neighbour(tmp_path: Any) -> None:
    store = TensorStore(tmp_path)
    asked: list[Graph] = []

    def check(graph: Graph) -> Answer:
        asked.append(graph)
        return "calm"

    mean, var = torch.zeros(1), torch.ones(1)
    graph = capture(lambda x: F.batch_norm(x, mean, var), (torch.ones(1, 1, 1, 1),), tensors=store)
    found = condition_of(graph, check, store, checks=5)
    assert (not found.complete and len(asked) == 5 == len(found.trials) + 1) or len(asked) == 5
    assert all(each.inputs[1].spec.shape == (each.inputs[0].spec.shape[1],) for each in asked)


def trigger(
    program: Callable[..., Any], argument: torch.Tensor, platform: str, context: RunContext
) -> TriggerCondition:
    graph = capture(program, (argument,), tensors=context.tensors)
    row: Row = GraphComparison(context, "case", graph).row(parse(platform))
    assert row.finding, row
    specify = partial(specified_in_worker, execute=context.execute)
    check = check_of(symptom_of(row), context)
    return condition_of(graph, check, context.tensors, specify=specify, seconds=120.0)


@pytest.mark.nightly
def test_openvino_fails_on_the_maximum_of_a_number(context: RunContext) -> None:
    pytest.importorskip("openvino")
    found = trigger(lambda x: torch.max(x, 0)[0], torch.tensor(1.0), "openvino/cpu", context)
    assert found.phrase == "0-d input" and "1-d, 2-d and 3-d inputs" in found.right_for
    assert found.natural is None


@pytest.mark.nightly
@pytest.mark.slow
def test_torch_onnx_drops_the_divisor_of_a_pooling(context: RunContext) -> None:
    pytest.importorskip("onnxruntime")
    found = trigger(
        lambda x: F.avg_pool2d(x, 1, divisor_override=2), torch.ones(1, 1, 1, 1), "onnxruntime/cpu", context
    )
    assert found.phrase == "with `divisor_override`" and "`divisor_override=None`" in found.right_for
    assert found.natural is not None and shape(found.natural) == (2, 3, 8, 8)


@pytest.mark.nightly
@pytest.mark.slow
def test_openvino_loses_log1p_near_zero(context: RunContext) -> None:
    pytest.importorskip("openvino")
    found = trigger(torch.log1p, torch.tensor([1e-5]), "openvino/cpu@precision=f32", context)
    assert "values near 0 (1e-6)" in found.phrase and "ones" in found.right_for
