"""Mutants that equal their original do: bit for bit where they say so, up to rounding elsewhere."""

import random
from collections import Counter

import numpy as np
import pytest
import torch

from mindgap.aten.tape import Tape
from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.graph import (
    DTYPES,
    Constant,
    Exceptional,
    Graph,
    Input,
    Node,
    Normal,
    Ref,
    TensorSpec,
    Uniform,
    materialise_all,
    validate,
)
from mindgap_campaign.synth.metamorphic import Mutant, mutants_of, with_rows
from mindgap_campaign.synth.mutation.dataflow import DataFlow
from mindgap_campaign.synth.mutation.rules import IdentityRule, load
from mindgap_campaign.synth.regions.trial import run_trial
from synth.networks import regions

RULES = load()


def run(graph: Graph) -> list[torch.Tensor]:
    inputs = [to_torch(array, given.spec) for array, given in zip(materialise_all(graph), graph.inputs, strict=True)]
    with torch.no_grad():
        return [tensor.clone() for tensor in Tape(graph).run(inputs)]


def same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Bit for bit, all NaN alike."""
    a, b = to_numpy(one), to_numpy(other)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if one.is_floating_point():
        a, b = (np.where(np.isnan(x), np.array(np.nan, x.dtype), x) for x in (a, b))
    return a.tobytes() == b.tobytes()


@pytest.mark.nightly
def test_exact_mutants_of_real_regions_are_exact_and_others_are_near():
    rng = random.Random(1)
    seen, identical = Counter[str](), Counter[str]()
    for _, region in regions():
        original = run(region.graph)
        for mutant in mutants_of(region.graph, rng, RULES):
            got = run(mutant.graph)
            seen[mutant.kind] += 1
            for position, wanted in zip(mutant.outputs, original, strict=True):
                equal = same(got[position], wanted)
                identical[mutant.kind] += equal
                assert equal or mutant.relation == "rounding", mutant.kind
                assert equal or near(region.graph, got[position], wanted), mutant.kind
            for one, other in mutant.equal_outputs:
                assert same(got[one], got[other])
    assert len(regions()) >= 36
    for kind in (
        "order",
        "twice",
        "layout",
        "batch turned",
        "batch split",
        *(f"identity: {r.name}" for r in RULES.identities),
    ):
        assert seen[kind], kind


def near(graph: Graph, got: torch.Tensor, wanted: torch.Tensor) -> bool:
    """Within float32's rounding over some hundred operations."""
    if not wanted.is_floating_point():
        return got.shape == wanted.shape
    scale = float(wanted.abs().max()) + 1e-6
    return bool(torch.allclose(got.double(), wanted.double(), rtol=1e-4, atol=1e-5 * scale, equal_nan=True))


def test_mutants_can_be_settled():
    rng = random.Random(2)
    for _, region in regions()[::5]:
        for mutant in mutants_of(region.graph, rng, RULES):
            trial = run_trial(mutant.graph)
            assert not trial.reason, (mutant.kind, trial.reason)
            validate(trial.graph)


def test_rows_do_not_mix_and_float64_agrees():
    """Turned and split batches of a float64 graph agree to its rounding, which float32's would hide."""
    graph = perceptron("float64")
    original = run(graph)
    found = {m.kind: m for m in mutants_of(graph, random.Random(0), RULES)}
    for kind in ("batch turned", "batch split", "layout"):
        (got,) = run(found[kind].graph)
        torch.testing.assert_close(got, original[0], rtol=1e-12, atol=1e-13)


def test_what_mixes_rows_has_no_batch():
    graph = perceptron("float32")
    assert with_rows(DataFlow(graph), RULES) is not None
    spec = TensorSpec.contiguous("float32", (4, 4))
    mixing = Node("aten.mm.default", (Ref(0), Ref(0)), (), (spec,))
    assert with_rows(DataFlow(Graph((Input(spec, Normal(1)),), (mixing,), (1,))), RULES) is None
    summed = Node("aten.cumsum.default", (Ref(0), 0), (), (spec,))
    assert with_rows(DataFlow(Graph((Input(spec, Normal(1)),), (summed,), (1,))), RULES) is None
    image, weight = TensorSpec.contiguous("float32", (4, 5, 5)), TensorSpec.contiguous("float32", (4, 4, 1, 1))
    one = Node("aten.conv2d.default", (Ref(0), Ref(1)), (), (image,))  # no batch: the first dimension is channels
    assert with_rows(DataFlow(Graph((Input(image, Normal(1)), Input(weight, Normal(2))), (one,), (2,))), RULES) is None


def perceptron(dtype: str) -> Graph:
    x, w, b = (TensorSpec.contiguous(dtype, shape) for shape in ((5, 8), (3, 8), (3,)))
    y = TensorSpec.contiguous(dtype, (5, 3))
    nodes = (
        Node("aten.linear.default", (Ref(0), Ref(1), Ref(2)), (), (y,)),
        Node("aten.gelu.default", (Ref(3),), (), (y,)),
        Node("aten.add.Tensor", (Ref(3), Ref(4)), (), (y,)),
    )
    return Graph(tuple(Input(s, Normal(n)) for n, s in enumerate((x, w, b))), nodes, (5,))


@pytest.mark.parametrize("rule", RULES.identities, ids=lambda rule: rule.name)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int64", "int32", "bool"])
def test_identities_keep_special_values(rule: IdentityRule, dtype: str):
    for shape in ((7,), (3, 4), (2, 1, 5)):
        spec = TensorSpec.contiguous(dtype, shape)
        steps = rule.steps(Ref(0), spec)
        if steps is None:
            assert DTYPES[dtype][0] not in rule.kinds or rule.when
            continue
        recipe = Exceptional(3, 0.7) if spec.kind == "float" else Constant(1)
        nodes = tuple(
            Node(s.op, tuple(named(a) for a in s.args), tuple((k, named(a)) for k, a in s.kwargs), (None,) * s.slots)
            for s in steps
        )
        graph = Graph((Input(spec, recipe),), nodes, (0, len(steps)))
        before, after = run(graph)
        if not rule.sign:
            before = before + 0
        assert same(before, after)
        assert tuple(after.stride()) == spec.stride


def named(arg: object) -> object:
    """A step's slot as a value of a graph with one input."""
    if isinstance(arg, Ref):
        return Ref(-arg.index) if arg.index < 0 else arg
    return tuple(named(item) for item in arg) if isinstance(arg, tuple) else arg


def test_nothing_is_copied_that_is_written_to():
    """A copy of what is written to later would keep the old contents."""
    spec = TensorSpec.contiguous("float32", (3, 4))
    nodes = (
        Node("aten.view.default", (Ref(0), (3, 4)), (), (spec,)),
        Node("aten.relu_.default", (Ref(0),), (), (spec,)),
        Node("aten.exp.default", (Ref(1),), (), (spec,)),
    )
    graph = Graph((Input(spec, Uniform(1, -1.0, 1.0)),), nodes, (3,))
    mutants = mutants_of(graph, random.Random(0), RULES)
    assert not [m for m in mutants if m.kind.startswith("identity")]
    assert not [m for m in mutants if m.kind == "twice"]
    orders = [
        order_of(m) for seed in range(20) for m in mutants_of(graph, random.Random(seed), RULES) if m.kind == "order"
    ]
    assert all(order.index("aten.relu_.default") < order.index("aten.exp.default") for order in orders)


def order_of(mutant: Mutant) -> list[str]:
    return [node.op for node in mutant.graph.nodes]


def test_the_same_seed_gives_the_same_mutants():
    for _, region in regions()[:6]:
        assert mutants_of(region.graph, random.Random(4), RULES) == mutants_of(region.graph, random.Random(4), RULES)
