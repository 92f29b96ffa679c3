"""Merged variants run, are what their descriptions say, and cover what they claim."""

from random import Random

import pytest
import torch

from mindgap.aten.operators import is_gradient_operator
from mindgap.aten.tape import Tape
from mindgap.aten.tensors import spec_of, to_torch
from mindgap.graph import (
    Graph,
    GraphError,
    Input,
    Node,
    Ref,
    TensorSpec,
    Uniform,
    decode,
    digest,
    materialise_all,
    validate,
)
from mindgap.graph.features import features_of
from mindgap_campaign.synth.merging import merge
from mindgap_campaign.synth.merging.merge import Merger
from mindgap_campaign.synth.merging.variant import Variant, VariantPart
from mindgap_campaign.synth.regions.pool import RegionPool


@pytest.fixture(scope="module")
def merger(pool: RegionPool) -> Merger:
    return Merger(pool)


@pytest.mark.parametrize("seed", range(25))
def test_a_variant_runs_and_its_specs_are_those_of_the_run(merger: Merger, seed: int) -> None:
    rng = Random(seed)
    nodes = rng.choice([5, 20, 60, 200])
    variant = merger.draw(rng, nodes, merger.uncovered(), 0.25, 0.1)
    graph = merger.assembly(variant).graph()
    validate(graph)
    assert len(graph.nodes) <= max(nodes, min(merger.pool.nodes))
    seen: list[TensorSpec | None] = []

    def look(_: int, results: list[torch.Tensor | None]) -> None:
        seen.extend(None if tensor is None else spec_of(tensor) for tensor in results)

    tensors = [to_torch(array, one.spec) for array, one in zip(materialise_all(graph), graph.inputs, strict=True)]
    Tape(graph).run(tensors, look)
    assert tuple(seen) == graph.values[len(graph.inputs) :]


def test_outputs_say_something(merger: Merger) -> None:
    good = elements = 0
    for seed in range(30):
        graph = merger.assembly(merger.draw(Random(seed), 100, merger.uncovered(), 0.25, 0.1)).graph()
        tensors = [to_torch(array, one.spec) for array, one in zip(materialise_all(graph), graph.inputs, strict=True)]
        floats = [output for output in Tape(graph).run(tensors) if output.is_floating_point()]
        good += sum(int(x.isfinite().sum()) for x in floats if x.numel() < 2 or (x != x.flatten()[0]).any())
        elements += sum(x.numel() for x in floats)
    assert good >= 0.8 * elements > 1000


def test_internal_results_are_not_returned() -> None:
    x, weight = TensorSpec.contiguous("float32", (2, 3)), TensorSpec.contiguous("float32", (3,))
    statistic = TensorSpec.contiguous("float32", (2, 1))
    norm = Node("aten.native_layer_norm.default", (Ref(0), (3,), Ref(1), Ref(1), 1e-5), (), (x, statistic, statistic))
    both = Graph((Input(x, Uniform(1, 0.0, 1.0)), Input(weight, Uniform(2, 0.0, 1.0))), (norm,), (2, 3, 2))
    assert merge.returned(both) == (2,)
    statistics_only = Graph(both.inputs, both.nodes, (3, 4))
    assert merge.returned(statistics_only) == (3, 4), "a region without other outputs returns them"


def test_the_description_gives_the_same_bytes(merger: Merger) -> None:
    variant = merger.draw(Random(5), 300, merger.uncovered(), 0.25, 0.1)
    again = Variant.from_json(variant.to_json())
    assert again == variant
    assert merger.assembly(again).encode() == merger.assembly(variant).encode()
    assert digest(decode(merger.assembly(again).encode())) == merger.assembly(variant).digest()
    assert len(variant.to_json()) < 1500


def test_every_region_but_the_first_is_wired_where_it_can_be(merger: Merger) -> None:
    parts = merger.draw(Random(6), 400, merger.uncovered(), 0.0, 0.1).parts
    assert len(parts) > 10
    able = [part for part in parts[1:-2] if merger.ports_of(part.region).input_ports]
    assert sum(bool(part.wires) for part in able) >= 0.9 * len(able)


def test_the_share_of_mutated_regions_is_as_asked(merger: Merger, pool: RegionPool) -> None:
    for share, least, most in ((0.0, 0, 0), (0.25, 0.15, 0.35), (1.0, 1, 1)):
        parts = [
            part for seed in range(40) for part in merger.draw(Random(seed), 60, merger.uncovered(), share, 0.1).parts
        ]
        mutated = sum(bool(pool[part.region].origin.kinds) for part in parts) / len(parts)
        assert least <= mutated <= most


def test_large_values_are_as_rare_as_asked(pool: RegionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge, "SMALL", 200)
    merger = Merger(pool)
    shares: list[float] = []
    for large in (0.0, 0.3, 1.0):
        parts = [p for seed in range(40) for p in merger.draw(Random(seed), 60, merger.uncovered(), 0.25, large).parts]
        sizes = [max(spec.numel for spec in pool[part.region].graph.values if spec) for part in parts]
        shares.append(sum(size > 200 for size in sizes) / len(sizes))
    assert shares[0] == 0 < 0.2 * shares[2] < shares[1] < 0.4 * shares[2]


def test_forward_variants_hold_no_gradient_operator(merger: Merger, pool: RegionPool) -> None:
    assert any(pool.gradients), "the pool has regions of backward passes"
    for forward in (False, True):
        drawn = [merger.draw(Random(seed), 60, merger.uncovered(), 0.25, 0.1, forward) for seed in range(40)]
        nodes = [node for variant in drawn for node in merger.assembly(variant).graph().nodes]
        assert any(is_gradient_operator(node.op) for node in nodes) is not forward


def test_what_is_new_is_preferred(merger: Merger) -> None:
    def reached(seed: int, *, remembers: bool) -> int:
        rng, uncovered = Random(seed), merger.uncovered()
        variants = [merger.draw(rng, 20, uncovered if remembers else merger.uncovered(), 0.25, 0.1) for _ in range(6)]
        return len(frozenset[str]().union(*map(merger.features, variants)))

    guided = sum(reached(seed, remembers=True) for seed in range(20))
    assert guided > 1.05 * sum(reached(seed, remembers=False) for seed in range(20))


def test_features_are_those_of_the_regions(merger: Merger, pool: RegionPool) -> None:
    variant = Variant(pool.digest, (VariantPart(0), VariantPart(1)))
    kinds = [pool[number].origin.kinds for number in (0, 1)]
    expected = {f for number in (0, 1) for f in features_of(pool[number].graph, kinds[number])}
    assert merger.features(variant) == expected


def test_a_variant_of_another_pool_is_refused(merger: Merger) -> None:
    with pytest.raises(GraphError, match="made of pool abc"):
        merger.assembly(Variant("abc", (VariantPart(0),)))
    with pytest.raises(GraphError, match="region 99999"):
        merger.assembly(Variant(merger.pool.digest, (VariantPart(99_999),)))


def test_an_empty_pool_cannot_be_merged() -> None:
    with pytest.raises(GraphError, match="no regions"):
        Merger(RegionPool.of(()))


@pytest.mark.parametrize(
    "text", ["", "{}", '{"v":1,"pool":"a","parts":[[1,2]]}', '{"v":2,"pool":"a","parts":[]}', "[]"]
)
def test_anything_else_describes_no_variant(text: str) -> None:
    with pytest.raises(GraphError, match=r"no variant|version 2"):
        Variant.from_json(text)
