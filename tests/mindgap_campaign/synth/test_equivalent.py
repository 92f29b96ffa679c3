"""Every equivalent formulation is one: both programs run, and agree to rounding."""

import random
from typing import Any

import pytest
import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import TORCH_DTYPES, spec_of
from mindgap.graph import Arg, DType, Graph, Input, Node, Normal, Ref, TensorSpec
from mindgap_campaign.synth.mutation.dataflow import DataFlow
from mindgap_campaign.synth.mutation.edit import apply
from mindgap_campaign.synth.mutation.rules import EquivalentRule, load
from mindgap_campaign.synth.mutation.rules.language import ConstantPattern
from mindgap_campaign.synth.mutation.schemas import call, signature

RULES = [rule for rows in load().equivalent.values() for rule in rows]


def test_there_are_many():
    assert len(RULES) >= 60
    assert len({rule.pattern.op for rule in RULES}) >= 60


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_both_sides_agree(rule: EquivalentRule):
    tried = 0
    for number, sample in enumerate(rule.samples):
        graph, inputs = program(rule, sample, number)
        edit = rule.rewrite(DataFlow(graph), 0)
        if edit is None:
            continue
        tried += 1
        rewritten = apply(graph, [edit])
        assert [n.op for n in rewritten.nodes] != [n.op for n in graph.nodes] or rewritten != graph
        for wanted, got in zip(run(graph, inputs), run(rewritten, inputs), strict=True):
            assert got.shape == wanted.shape
            assert got.dtype == wanted.dtype
            torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-11)
    assert tried >= 2, "its samples should fit its conditions"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_runs_in_float32_too(rule: EquivalentRule):
    if "float64" in str(rule.samples):
        return  # its argument names the dtype
    graph, inputs = program(rule, rule.samples[0], 7, "float32")
    edit = rule.rewrite(DataFlow(graph), 0)
    assert edit is not None
    for wanted, got in zip(run(graph, inputs), run(apply(graph, [edit]), inputs), strict=True):
        assert got.dtype == wanted.dtype
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-4)


def program(rule: EquivalentRule, sample: dict[str, Any], seed: int, dtype: str = "float64") -> tuple[Graph, list[Any]]:
    """The pattern's call as a graph of one node, on random tensors of the sample's shapes."""
    generator = torch.Generator().manual_seed(seed + 1)
    named = signature(rule.pattern.op).named
    parts = dict(zip(named, rule.pattern.args, strict=False)) | dict(rule.pattern.kwargs)
    given: dict[str, Arg] = {}
    tensors: list[torch.Tensor] = []

    def tensor(shape: Any) -> Ref:
        tensors.append(drawn(shape, rule, generator, dtype))
        return Ref(len(tensors) - 1)

    for name, part in parts.items():
        kind = named[name].type
        if isinstance(part, ConstantPattern):
            given[name] = part.value
        elif isinstance(part, list):
            given[name] = tuple(tensor(sample[item]) for item in part)
        elif kind.startswith("List[Tensor"):
            given[name] = tuple(tensor(shape) for shape in sample[part])
        elif named[name].tensor:
            given[name] = tensor(sample[part])
        elif kind == "ScalarType":
            given[name] = DType(sample[part])
        else:
            given[name] = tuple(sample[part]) if isinstance(sample[part], list) else sample[part]
    step = call(rule.pattern.op, given, len(rule.gives))
    inputs = tuple(Input(spec_of(t), Normal(1)) for t in tensors)
    draft = Graph(inputs, (Node(step.op, step.args, step.kwargs, (None,) * step.slots),), ())
    count = len(tensors)
    shown = tuple(count + slot for slot, name in enumerate(rule.gives) if name is not None)
    specs: list[TensorSpec | None] = []
    Tape(draft).run(tensors, lambda _, results: specs.extend(spec_of(r) for r in results if r is not None))
    return Graph(inputs, (Node(step.op, step.args, step.kwargs, tuple(specs)),), shown), tensors


def drawn(shape: Any, rule: EquivalentRule, generator: torch.Generator, dtype: str) -> torch.Tensor:
    """[2, 3] in the rule's range, "bool[2, 3]" true and false, "int64[2, 3]" zeros and ones."""
    if isinstance(shape, str):
        kind, _, sizes = shape.rstrip("]").partition("[")
        size = [int(each) for each in sizes.split(",")]
        return torch.randint(0, 2, size, generator=generator).to(TORCH_DTYPES[kind])
    values = torch.rand(shape, generator=generator, dtype=torch.float64)
    return (rule.low + values * (rule.high - rule.low)).to(TORCH_DTYPES[dtype])


def run(graph: Graph, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    with torch.no_grad():
        return Tape(graph).run(inputs)


def test_a_rule_leaves_calls_alone_that_it_does_not_describe():
    """addmm as linear wants a bias of one dimension, and nothing reads the places of a largest element."""
    random.seed(0)
    spec = TensorSpec.contiguous("float32", (3, 4))
    small = TensorSpec.contiguous("float32", (3,))
    positions = TensorSpec.contiguous("int64", (3,))
    rule = next(rule for rule in RULES if rule.name == "largest without its place")
    node = Node("aten.max.dim", (Ref(0), 1), (), (small, positions))
    unread = Graph((Input(spec, Normal(1)),), (node,), (1,))
    read = Graph((Input(spec, Normal(1)),), (node,), (1, 2))
    assert rule.rewrite(DataFlow(unread), 0) is not None
    assert rule.rewrite(DataFlow(read), 0) is None
    unknown = Graph(
        (Input(spec, Normal(1)),),
        (Node("aten.relu.default", (Ref(0),), (), (None,)), Node("aten.max.dim", (Ref(1), 1), (), (small, positions))),
        (2,),
    )
    assert rule.rewrite(DataFlow(unknown), 1) is None
