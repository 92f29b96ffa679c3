"""Proposals are right mostly, deterministic, quick, and say what they change."""

import random
from collections import Counter

import pytest

from mindgap.aten.operators import facts
from mindgap.graph import DType, Exceptional, Graph, Input, MindgapError, Node, Normal, Ref, TensorSpec, Uniform
from mindgap_campaign.synth.mutation.edit import InputEdit, Rewrite, apply, from_json, to_json
from mindgap_campaign.synth.mutation.kinds.in_place import in_place_counterpart
from mindgap_campaign.synth.mutation.propose import KINDS, Proposal, propose
from mindgap_campaign.synth.mutation.rules import load
from mindgap_campaign.synth.regions.region import Region
from mindgap_campaign.synth.regions.trial import region_of, run_trial
from synth.networks import regions

RULES = load()


def floats(*shape: int) -> TensorSpec:
    return TensorSpec.contiguous("float32", shape)


def chain(*ops: str, spec: TensorSpec | None = None) -> Graph:
    """One unary operator after another."""
    spec = spec or floats(3, 4)
    nodes = tuple(Node(op, (Ref(at),), (), (spec,)) for at, op in enumerate(ops))
    return Graph((Input(spec, Uniform(1)),), nodes, (len(ops),))


@pytest.mark.parametrize("kind", KINDS)
def test_most_proposals_run(kind: str):
    rng, ran, tried, useful = random.Random(kind), 0, 0, 0
    reasons = Counter[str]()
    for piece, region in regions():
        prepared = apply(piece.graph, region.origin.edits)
        proposal = propose(prepared, rng, RULES, kind)
        if proposal is None:
            continue
        assert proposal.kind == kind
        assert [from_json(to_json(edit)) for edit in proposal.edits] == list(proposal.edits)
        tried += 1
        mutant = region_of("test", piece, (*region.origin.edits, *proposal.edits), (kind,))
        ran += isinstance(mutant, Region) or mutant == "useless"
        useful += isinstance(mutant, Region)
        if isinstance(mutant, str):
            reasons[mutant] += 1
    assert tried >= 20
    # Not every operator takes each dtype and size: there the trial decides.
    assert ran >= {"cast": 0.7, "shape": 0.6}.get(kind, 0.85) * tried, reasons
    assert useful >= (0.6 if kind in ("cast", "shape") else 0.7) * tried, reasons


def test_the_same_seed_proposes_the_same():
    for _, region in regions()[:12]:
        for kind in KINDS:
            assert propose(region.graph, random.Random(5), RULES, kind) == propose(
                region.graph, random.Random(5), RULES, kind
            )


def test_some_kind_has_a_place_in_every_region():
    rng = random.Random(2)
    kinds = Counter[str]()
    for _ in range(5):
        for _, region in regions():
            proposal = propose(region.graph, rng, RULES)
            assert isinstance(proposal, Proposal)
            kinds[proposal.kind] += 1
    assert set(kinds) == set(KINDS)


def test_several_in_a_row_cope_with_specs_that_are_not_known():
    rng, ran, tried = random.Random(3), 0, 0
    for piece, region in regions():
        edits = list(region.origin.edits)
        draft = apply(piece.graph, edits)
        for _ in range(3):
            proposal = propose(draft, rng, RULES)
            if proposal is not None:
                edits += proposal.edits
                draft = apply(draft, proposal.edits)
        mutant = region_of("test", piece, edits, ("several",))
        tried += 1
        ran += isinstance(mutant, Region) or mutant == "useless"
    assert ran >= 0.7 * tried


def test_an_unknown_kind_is_named():
    with pytest.raises(MindgapError, match=r"no kind of mutation 'colour'.*twin"):
        propose(chain("aten.relu.default"), random.Random(0), RULES, "colour")


def test_a_graph_without_a_place_has_no_proposal():
    empty = Graph((Input(TensorSpec.contiguous("int64", (2,)), Uniform(1)),), (), (0,))
    assert propose(empty, random.Random(0), RULES) is None


def test_twins_follow_from_the_schemas():
    assert in_place_counterpart("aten.add.Tensor") == "aten.add_.Tensor"
    assert in_place_counterpart("aten.add_.Tensor") == "aten.add.Tensor"
    assert in_place_counterpart("aten.pow.Tensor_Scalar") == "aten.pow_.Scalar"
    assert in_place_counterpart("aten.mm.default") is None
    assert in_place_counterpart("aten.view.default") is None
    paired = [op for op in RULES.alike if (other := in_place_counterpart(op)) and in_place_counterpart(other) == op]
    assert len(paired) > 60


def test_nothing_writes_to_an_expanded_tensor_nor_where_the_result_does_not_fit():
    thin, expanded = floats(4), TensorSpec("float32", (3, 4), (0, 1))
    nodes = (
        Node("aten.mv.default", (Ref(0), Ref(1)), (), (thin,)),
        Node("aten.expand.default", (Ref(2), (3, 4)), (), (expanded,)),
        Node("aten.relu.default", (Ref(3),), (), (floats(3, 4),)),
    )
    graph = Graph((Input(floats(4, 5), Normal(1)), Input(floats(5), Normal(2))), nodes, (4,))
    wide = Node("aten.add.Tensor", (Ref(0), Ref(1)), (), (floats(3, 4),))
    spread = Graph((Input(floats(4), Normal(1)), Input(floats(3, 4), Normal(2))), (wide,), (2,))
    for seed in range(40):
        assert propose(graph, random.Random(seed), RULES, "twin") is None
        assert propose(spread, random.Random(seed), RULES, "twin") is None


def test_inputs_are_written_to_as_copies():
    graph = chain("aten.relu.default", spec=TensorSpec("float32", (3, 4), (0, 1)))
    proposal = propose(graph, random.Random(0), RULES, "twin")
    assert proposal is not None
    (edit,) = proposal.edits
    assert isinstance(edit, Rewrite) and [step.op for step in edit.steps] == [
        "aten.clone.default",
        "aten.relu_.default",
    ]
    assert run_trial(apply(graph, proposal.edits)).reason == ""


def test_a_write_to_what_is_read_later_is_deliberate_and_rare():
    spec = floats(3, 4)
    nodes = (
        Node("aten.mm.default", (Ref(0), Ref(1)), (), (spec,)),
        Node("aten.relu.default", (Ref(2),), (), (spec,)),
        Node("aten.add.Tensor", (Ref(2), Ref(3)), (), (spec,)),
    )
    graph = Graph((Input(floats(3, 3), Normal(1)), Input(spec, Normal(2))), nodes, (4,))
    hits = Counter[int]()
    for seed in range(400):
        proposal = propose(graph, random.Random(seed), RULES, "twin")
        assert proposal is not None
        (edit,) = proposal.edits
        assert isinstance(edit, Rewrite)
        assert facts(edit.steps[0].op).mutates
        hits[edit.node] += 1
    assert 10 <= hits[1] <= 120  # a quarter of the draws may, half of those do
    assert hits[2] >= 280


def test_operators_whose_operands_are_not_known_are_left_alone():
    spec = floats(3, 4)
    unknown = Graph(
        (Input(spec, Normal(1)),),
        (
            Node("aten.relu.default", (Ref(0),), (), (None,)),
            Node("aten.silu.default", (Ref(1),), (), (None,)),
        ),
        (2,),
    )
    for seed in range(30):
        for kind in ("alike", "equivalent", "twin"):
            proposal = propose(unknown, random.Random(seed), RULES, kind)
            assert proposal is None or all(isinstance(e, Rewrite) and e.node == 0 for e in proposal.edits)


def test_exceptional_values_say_so():
    proposal = propose(chain("aten.relu.default"), random.Random(1), RULES, "value")
    assert proposal is not None
    (edit,) = proposal.edits
    assert isinstance(edit, InputEdit)
    assert isinstance(edit.recipe, Exceptional)


def test_a_whole_graph_changes_its_dtype():
    found: set[str] = set()
    graph = chain("aten.relu.default", "aten.exp.default")
    for seed in range(200):
        proposal = propose(graph, random.Random(seed), RULES, "cast")
        assert proposal is not None
        if isinstance(proposal.edits[0], InputEdit):
            graph_of_another_dtype = apply(graph, proposal.edits)
            assert graph_of_another_dtype.inputs[0].spec.shape == (3, 4)
            found.add(proposal.edits[0].spec.dtype)
        else:
            kinds = [value for step in proposal.edits[0].steps for _, value in step.kwargs]
            assert DType("float32") in kinds
    assert found == {
        "bfloat16", "float16", "float64", "uint8", "int8", "int16", "int32", "int64", "bool", "complex64",
    }  # fmt: skip


def test_edge_shapes_reach_empty_one_and_past_sixteen_bits():
    sizes: set[int] = set()
    graph = chain("aten.relu.default", spec=floats(6, 2))
    for seed in range(200):
        proposal = propose(graph, random.Random(seed), RULES, "shape")
        if proposal is not None:
            assert isinstance(proposal.edits[0], InputEdit)
            sizes.update(proposal.edits[0].spec.shape)
    assert {0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65} <= sizes
    assert max(sizes) > 65_536


def test_where_an_empty_dimension_kills_the_process_none_is_proposed():
    spec = floats(2, 6, 4, 4)
    stats = floats(6)
    inputs = tuple(Input(s, Normal(1)) for s in (spec, spec, stats, stats, stats, stats, stats))
    args = (*(Ref(n) for n in range(7)), False, 1e-5, (True, True, True))
    node = Node("aten.native_batch_norm_backward.default", args, (), (spec, stats, stats))
    graph = Graph(inputs, (node,), (7, 8, 9))
    for seed in range(200):
        proposal = propose(graph, random.Random(seed), RULES, "shape")
        assert proposal is None or all(not isinstance(e, InputEdit) or 0 not in e.spec.shape for e in proposal.edits)
