"""A trial records what ran, drops what says nothing, and names what failed; regions are made again bit for bit."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch

from mindgap.aten.dead_nodes import without_dead_nodes
from mindgap.aten.tape import Tape
from mindgap.aten.tensors import spec_of, to_torch
from mindgap.graph import (
    Graph,
    Integers,
    Normal,
    Ref,
    Stored,
    TensorSpec,
    Uniform,
    digest,
    materialise_all,
    validate,
)
from mindgap_campaign.synth.mutation.edit import DraftCall, Rewrite, apply
from mindgap_campaign.synth.regions.cut import cut, cut_of, whole_graph_cut
from mindgap_campaign.synth.regions.prepared import prepare_graph
from mindgap_campaign.synth.regions.region import Origin, Region
from mindgap_campaign.synth.regions.trial import (
    INPUTS,
    Trial,
    region_of,
    run_trial,
)
from mindgap_campaign.synth.values.recipes import recipes
from synth.bases import all_bases, border, call, floats
from synth.networks import plain_region

X = floats(4, 4)


@pytest.fixture(scope="module")
def bases() -> dict[str, Graph]:
    return all_bases()


def draft(*nodes, outputs: tuple[int, ...], inputs=None) -> Graph:
    return Graph(inputs or (border(X, Normal(1)),), nodes, outputs)


def run(graph: Graph) -> list[torch.Tensor]:
    arrays = materialise_all(graph)
    with torch.no_grad():
        return Tape(graph).run([to_torch(a, i.spec) for a, i in zip(arrays, graph.inputs, strict=True)])


def test_most_cuts_of_real_programs_become_regions(bases: dict[str, Graph]) -> None:
    reasons: list[str] = []
    made = 0
    for graph in bases.values():
        base = prepare_graph(graph)
        for seed in range(60):
            rng = random.Random(seed)
            found = cut(base, rng, 30)
            if found is None:
                continue
            region = plain_region("b", found, rng)
            if isinstance(region, str):
                reasons.append(region)
                continue
            made += 1
            validate(region.graph)
            _check(region)
    assert made >= 100 and len(reasons) <= made / 20, reasons


def _check(region: Region) -> None:
    graph = region.graph
    outputs = run(graph)
    assert [spec_of(tensor) for tensor in outputs] == [graph.values[number] for number in graph.outputs]
    assert any(bool(torch.isfinite(t).any()) for t in outputs if t.is_floating_point() and t.numel()) or all(
        not t.is_floating_point() for t in outputs
    )
    assert len(region.input_spans) == len(region.free) and len(region.output_spans) == len(graph.outputs)
    for span, tensor in zip(region.output_spans, outputs, strict=True):
        if span is not None:
            assert tensor.is_floating_point() and bool(torch.isfinite(tensor).all())
            assert span.low == pytest.approx(float(tensor.min()), rel=1e-2, abs=1e-9) and span.varies
    for number in region.free:
        assert graph.inputs[number].spec.kind == "float" and graph.inputs[number].role == "input"


def rebuilt(origin: Origin, graph: Graph) -> Graph:
    trial = run_trial(apply(cut_of(prepare_graph(graph), origin.nodes).graph, origin.edits))
    assert not trial.reason and trial.drops == origin.drops
    return trial.graph


def test_regions_are_made_again_bit_for_bit(bases: dict[str, Graph]) -> None:
    for name, graph in bases.items():
        base = prepare_graph(graph)
        for seed in range(12):
            rng = random.Random(seed)
            found = cut(base, rng, 30)
            region = plain_region(name, found, rng) if found is not None else "nothing"
            if isinstance(region, Region):
                origin = Origin.from_json(region.origin.to_json())
                assert origin == region.origin
                assert digest(rebuilt(origin, graph)) == digest(region.graph)


def test_a_mutated_region_is_made_again_and_its_indices_are_mended() -> None:
    table = floats(8, 4)
    ids = floats(5, dtype="int64")
    graph = Graph(
        (border(table, Normal(1), "parameter"), border(ids, Integers(2, 0, 8))),
        (call("embedding.default", Ref(0), Ref(1), out=floats(5, 4)), call("sin.default", Ref(2), out=floats(5, 4))),
        (3,),
    )
    base = prepare_graph(graph)
    found = cut(base, random.Random(1), 2, start=0)
    assert found is not None
    smaller = DraftCall("aten.narrow.default", (Ref(0), 0, 0, 3))
    look_up = DraftCall("aten.embedding.default", (Ref(-1), Ref(1)))
    region = region_of("b", found, [Rewrite(0, (smaller, look_up), (Ref(-2),))], ["shrink"])
    assert isinstance(region, Region)
    assert region.origin.kinds == ("shrink",)
    assert region.graph.nodes[0].outputs == (TensorSpec.contiguous("float32", (3, 4)),)
    assert digest(rebuilt(region.origin, graph)) == digest(region.graph)


def test_specs_are_those_of_the_run() -> None:
    stale = call("transpose.int", Ref(0), 0, 1, out=floats(9))
    trial = run_trial(draft(stale, call("add.Tensor", Ref(1), 1, out=(None,)), outputs=(1, 2)))
    assert trial.reason == "" and trial.graph.nodes[0].outputs == (TensorSpec("float32", (4, 4), (1, 4)),)
    assert trial.graph.nodes[1].outputs[0] == TensorSpec("float32", (4, 4), (1, 4))


@pytest.mark.parametrize("length", [1, 3])
def test_sizes_that_eager_does_not_check_are_refused(length: int) -> None:
    """The kernel reads a weight for each channel, and would read outside of a shorter tensor."""
    image, vector = floats(2, 3, 4), floats(3)
    node = call(
        "_native_batch_norm_legit_no_training.default",
        *(Ref(0), Ref(1), Ref(2), Ref(3), Ref(4), 0.1, 1e-5),
        out=(image, floats(0), floats(0)),
    )
    given = [
        border(floats(length), Uniform(n + 2, 0.5, 1.5)) if n == 0 else border(vector, Uniform(n + 2, 0.5, 1.5))
        for n in range(4)
    ]
    trial = run_trial(draft(node, outputs=(5,), inputs=(border(image, Normal(1)), *given)))
    assert trial.reason == ("" if length == 3 else "unchecked sizes: aten._native_batch_norm_legit_no_training")


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (call("mm.default", Ref(0), Ref(1), out=X), "shape: aten.mm"),
        (call("index_select.default", Ref(0), 0, Ref(2), out=X), "index: aten.index_select"),
        (call("bitwise_and.Tensor", Ref(0), Ref(0), out=X), "dtype: aten.bitwise_and"),
        (call("split.Tensor", Ref(0), 1, out=(X, X)), "slots: aten.split"),
        (call("repeat.default", Ref(0), (4000, 1000), out=X), "too big"),
        (call("repeat.default", Ref(0), (10**6, 10**6), out=X), "too big"),
        (call("mul.Tensor", Ref(0), 0.0, out=X), "useless"),
        (call("log.default", Ref(3), out=X), "useless"),
        (call("empty_like.default", Ref(0), out=X), "unfit: aten.empty_like"),
        (call("nonsense.default", Ref(0), out=X), "unfit: aten.nonsense"),
    ],
)
def test_reasons_are_short_and_the_same_for_one_kind_of_failure(node, reason: str) -> None:
    inputs = (
        border(X, Normal(1)),
        border(floats(3, 7), Normal(2)),
        border(floats(2, dtype="int64"), Integers(3, 90, 99)),
        border(X, Uniform(4, -2.0, -1.0)),
    )
    trial = run_trial(draft(node, outputs=(4,), inputs=inputs))
    assert trial.reason == reason


@pytest.mark.parametrize(
    ("view", "write"),
    [
        (call("_unsafe_view.default", Ref(0), (16,), out=floats(16)), call("sigmoid_.default", Ref(1), out=floats(16))),
        (call("unsafe_split.Tensor", Ref(0), 2, out=(X, X)), call("relu_.default", Ref(1), out=X)),
    ],
)
def test_who_writes_to_an_input_through_an_unknown_alias_is_no_region(view, write) -> None:
    before = INPUTS.tensor(border(X, Normal(1))).clone()
    trial = run_trial(draft(view, write, outputs=(1 + len(view.outputs),)))
    assert trial.reason == "writes to an input"
    assert torch.equal(INPUTS.tensor(border(X, Normal(1))), before)


def test_what_says_nothing_is_dropped_with_all_that_led_to_it() -> None:
    inputs = (border(X, Normal(1)), border(X, Normal(2)))
    trial = run_trial(
        draft(
            call("sin.default", Ref(0), out=X),
            call("cos.default", Ref(1), out=X),
            call("mul.Tensor", Ref(3), 0.0, out=X),
            outputs=(2, 4),
            inputs=inputs,
        )
    )
    assert trial.drops == (1,) and [node.op for node in trial.graph.nodes] == ["aten.sin.default"]
    assert len(trial.graph.inputs) == 1 and trial.free == (0,)


def test_a_write_that_an_output_sees_stays_and_one_that_none_sees_goes() -> None:
    def graph(output: int) -> Graph:
        return draft(
            call("sin.default", Ref(0), out=X),
            call("select.int", Ref(1), 0, 1, out=floats(4)),
            call("add_.Tensor", Ref(2), 1, out=floats(4)),
            call("cos.default", Ref(0), out=X),
            outputs=(output,),
        )

    assert len(without_dead_nodes(graph(1)).nodes) == 3
    assert [node.op for node in without_dead_nodes(graph(4)).nodes] == ["aten.cos.default"]


def test_a_single_number_is_no_constant_and_an_empty_tensor_no_reason() -> None:
    trial = run_trial(
        draft(call("sum.default", Ref(0), out=floats()), call("narrow.default", Ref(0), 0, 0, 0, out=X), outputs=(1, 2))
    )
    assert trial.reason == "" and trial.drops == () and trial.output_spans == (None, None)


def test_spans_are_of_the_values_that_were_there() -> None:
    trial = run_trial(draft(call("mul.Tensor", Ref(0), 2.0, out=X), outputs=(1,)))
    (value,) = run(trial.graph)
    (span,) = trial.output_spans
    (taken,) = trial.input_spans
    assert span is not None and span.high == pytest.approx(float(value.max()), rel=1e-2)
    assert taken.low * 2 == pytest.approx(float(value.min())) and taken.std == pytest.approx(0.9, abs=0.4)


def test_whole_graphs_keep_their_recipes_and_lose_stored_tensors(bases: dict[str, Graph]) -> None:
    graph = bases["words"]
    whole = whole_graph_cut(prepare_graph(graph))
    assert whole is not None
    region = plain_region("b", whole, random.Random(0))
    assert isinstance(region, Region)
    kept = {given.recipe for given in region.graph.inputs}
    assert kept <= {given.recipe for given in graph.inputs}
    stored = replace(graph, inputs=tuple(replace(i, recipe=Stored("0" * 64)) for i in graph.inputs))
    without_recipes = whole_graph_cut(prepare_graph(stored))
    assert without_recipes is not None
    plain = plain_region("b", without_recipes, random.Random(0))
    assert isinstance(plain, Region) and not any(isinstance(i.recipe, Stored) for i in plain.graph.inputs)


def test_settling_twice_gives_the_same(bases: dict[str, Graph]) -> None:
    graph = bases["convolutions backward"]
    found = cut(prepare_graph(graph), random.Random(5), 20)
    assert found is not None
    edits, _ = recipes(found.graph, random.Random(5))
    regions = [region_of("b", found, edits) for _ in range(2)]
    assert regions[0] == regions[1]


def test_threads_and_memory_bounds_are_put_back() -> None:
    import resource

    torch.set_num_threads(2)
    before = resource.getrlimit(resource.RLIMIT_AS)
    trial = run_trial(draft(call("mm.default", Ref(0), Ref(0), Ref(0), out=X), outputs=(1,)))
    assert isinstance(trial, Trial) and trial.reason
    assert torch.get_num_threads() == 2 and resource.getrlimit(resource.RLIMIT_AS) == before
    torch.set_num_threads(1)
