"""Rules are about operators that exist; recipes meet them; what must not be fed by anything else is held."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from mindgap.aten.operators import facts, overload
from mindgap.graph import (
    Constant,
    DType,
    Exceptional,
    Graph,
    Input,
    Integers,
    Literal,
    MindgapError,
    Normal,
    Ref,
    TensorSpec,
    Uniform,
    materialise,
    numpy_dtype,
)
from mindgap_campaign.synth.mutation.edit import apply
from mindgap_campaign.synth.values.constraints import ValueConstraint, constraints_of
from mindgap_campaign.synth.values.recipes import bounds_of, free_inputs, recipe_for, recipes
from mindgap_campaign.synth.values.rules import read_rules, value_rules
from mindgap_campaign.synth.values.structured import structured_recipe
from synth.bases import border, call, floats

X = floats(4, 6)
IDS = floats(5, dtype="int64")


def filled(graph: Graph, seed: int = 0, **options: bool) -> tuple[Graph, frozenset[int]]:
    edits, held = recipes(graph, random.Random(seed), **options)
    return apply(graph, edits), held


def bounds(graph: Graph, number: int) -> tuple[float, float]:
    return bounds_of(filled(graph)[0].inputs[number])


# ---- the file --------------------------------------------------------------------------------------------------------


def test_every_row_names_operators_and_operands_that_exist() -> None:
    rules = value_rules()
    assert len(rules.table) > 200
    for op, rows in rules.table.items():
        overload(op)
        for row in rows:
            known = facts(op).arguments
            assert row.operand in known and all(name in known for name, _ in row.when), (op, row)


_ROW = "safe = []\ndecides = {}\n[carriers]\nexact = []\nlayout = []\nall_operands = []\nall_results = []\n[[rule]]\n"


_LOG = 'operators = ["log"]\noperand = "self"\nrange = [0, 1]'


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('operators = ["log"]\noperand = "self"\nranges = [0, 1]', "values.toml: rule.0.ranges: Extra inputs"),
        ('operators = ["log"]\noperand = "self"', "exactly one of range, index"),
        ('operators = ["log"]\noperand = "self"\nrange = [2, 1]', r"range \[2.0, 1.0\] is no interval"),
        ('operators = ["logg"]\noperand = "self"\nrange = [0, 1]', "rule 0: torch .* has no operator aten.logg"),
        ('operators = ["log.other"]\noperand = "self"\nrange = [0, 1]', "aten.log has no overload 'other'"),
        ('operators = ["log"]\noperand = "x"\nrange = [0, 1]', "rule 0: log has no argument 'x'"),
        ('operators = ["log"]\noperand = "self"\nwhen = { dim = 1 }\nrange = [0, 1]', "log has no argument 'dim'"),
        ('operators = ["gather"]\noperand = "index"\nindex = { of = "me" }', "gather has no argument 'me'"),
        ('operators = ["gather"]\noperand = "index"\nform = "round"', "form"),
        ("operators = [", "not TOML"),
    ],
)
def test_a_bad_row_is_named(row: str, message: str) -> None:
    with pytest.raises(MindgapError, match=message):
        read_rules(_ROW + row)


def test_a_bad_carrier_is_named() -> None:
    with pytest.raises(MindgapError, match=r"exact: torch .* has no operator aten.klone"):
        read_rules(
            _ROW.replace("exact = []", 'exact = ["klone"]') + 'operators = ["log"]\noperand = "self"\nrange=[0,1]'
        )


# ---- constraints -----------------------------------------------------------------------------------------------------


def test_indices_stay_within_what_they_point_at() -> None:
    graph = Graph(
        (border(X, Normal(1), "parameter"), border(IDS)),
        (call("embedding.default", Ref(0), Ref(1), out=floats(5, 6)),),
        (2,),
    )
    assert bounds(graph, 1) == (0, 3) and filled(graph)[1] == {1}


@pytest.mark.parametrize(
    ("node", "largest"),
    [
        (call("gather.default", Ref(0), 1, Ref(1), out=X), 5),
        (call("gather.default", Ref(0), -2, Ref(1), out=X), 3),
        (call("take.default", Ref(0), Ref(1), out=X), 23),
        (call("index.Tensor", Ref(0), (None, Ref(1)), out=X), 5),
        (call("embedding_dense_backward.default", Ref(0), Ref(1), 9, -1, False, out=X), 8),
        (call("max_pool2d_with_indices_backward.default", Ref(0), Ref(0), 2, 2, 0, 1, False, Ref(1), out=X), 23),
        (call("index_select.default", Ref(0), 0, Ref(1), out=X), 3),
        (call("scatter_add.default", Ref(0), 1, Ref(1), Ref(0), out=X), 5),
    ],
)  # fmt: skip
def test_indices_of_many_kinds(node, largest: int) -> None:
    graph = Graph((border(X, Normal(1)), border(floats(1, 3, dtype="int64"))), (node,), (2,))
    assert bounds(graph, 1) == (0, largest)


def test_a_need_is_followed_through_views_casts_and_arithmetic() -> None:
    wide = floats(5, dtype="float32")
    graph = Graph(
        (border(X, Normal(1)), border(wide)),
        (
            call("to.dtype", Ref(1), out=IDS),
            call("add.Tensor", Ref(2), -2, out=IDS),
            call("view.default", Ref(3), (5, 1), out=floats(5, 1, dtype="int64")),
            call("embedding.default", Ref(0), Ref(4), out=floats(5, 1, 6)),
        ),
        (5,),
    )
    low, high = bounds(graph, 1)
    assert low == 2 and 5 < high < 6
    assert filled(graph)[1] == {1}, "an index depends on it"


def test_ranges_meet_at_one_tensor() -> None:
    graph = Graph(
        (border(X),),
        (call("acos.default", Ref(0), out=X), call("log.default", Ref(0), out=X), call("sqrt.default", Ref(0), out=X)),
        (1, 2, 3),
    )
    low, high = bounds(graph, 0)
    assert 0 < low < high < 1
    assert free_inputs(filled(graph)[0]) == (0,), "a range does not hold an input"


def test_running_variances_and_saved_deviations_are_positive() -> None:
    planes, image = floats(3), floats(2, 3, 4, 4)
    graph = Graph(
        tuple(border(spec) for spec in (image, planes, planes, planes, planes)),
        (call("batch_norm.default", Ref(0), Ref(1), Ref(2), Ref(3), Ref(4), False, 0.1, 1e-5, False, out=image),),
        (5,),
    )
    assert bounds(graph, 4)[0] > 0 > bounds(graph, 3)[0]


def test_integer_divisors_are_not_zero() -> None:
    graph = Graph((border(IDS), border(IDS)), (call("remainder.Tensor", Ref(0), Ref(1), out=IDS),), (2,))
    assert bounds(graph, 1)[0] == 1


def test_eight_bit_integers_take_their_whole_range_and_floats_that_become_some_fit_into_it() -> None:
    node = call("to.dtype", Ref(0), DType("uint8"), out=floats(4, 6, dtype="uint8"))
    graph, _ = filled(Graph((border(X),), (node,), (1,)))
    assert bounds_of(graph.inputs[0])[0] >= 0 and bounds_of(graph.inputs[0])[1] <= 255
    drawn = recipe_for(floats(50, dtype="int8"), ValueConstraint(), 0)
    assert drawn == Integers(0, -128, 128)
    assert recipe_for(floats(50, dtype="int8"), ValueConstraint(0, 5), 0) == Integers(0, 0, 6)


def test_targets_are_classes_or_probabilities_as_their_dtype_says() -> None:
    for target, expected in ((floats(4, dtype="int64"), (0, 5)), (X, (0.0, 1.0))):
        graph = Graph(
            (border(X), border(target)), (call("cross_entropy_loss.default", Ref(0), Ref(1), out=floats()),), (2,)
        )
        assert bounds(graph, 1) == expected


def test_an_empty_target_and_a_dimension_out_of_range_are_no_error() -> None:
    graph = Graph((border(X), border(IDS)), (call("gather.default", Ref(0), 7, Ref(1), out=X),), (2,))
    assert bounds(graph, 1) == (0, 0)


# ---- forms -----------------------------------------------------------------------------------------------------------


def values(spec: TensorSpec, need: ValueConstraint, seed: int = 3) -> np.ndarray:
    return materialise(Input(spec, recipe_for(spec, need, seed)))


def test_offsets_start_at_zero_and_never_fall() -> None:
    found = values(floats(7, dtype="int64"), ValueConstraint(0, 20, "offsets"))
    assert found[0] == 0 and (np.diff(found) >= 0).all() and found.max() <= 20 and found.max() > 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
def test_boundaries_are_sorted(dtype: str) -> None:
    found = values(floats(3, 9, dtype=dtype), ValueConstraint(form="sorted")).astype("float64")
    assert (np.diff(found, axis=-1) >= 0).all() and len(np.unique(found)) > 3


def test_distinct_indices_are_distinct() -> None:
    for spec, places in (
        (floats(9, dtype="int64"), 9),
        (floats(2, 4, dtype="int32"), 30),
        (floats(9, dtype="int64"), 40),
    ):
        found = values(spec, ValueConstraint(0, places - 1, "distinct"))
        assert len(np.unique(found)) == spec.numel and found.min() >= 0 and found.max() < places
    crowded = values(floats(9, dtype="int64"), ValueConstraint(0, 3, "distinct"))
    assert crowded.max() <= 3 and crowded.min() >= 0


@pytest.mark.parametrize("size", [1, 2, 7, 24])
def test_matrices_have_their_form(size: int) -> None:
    spec = floats(2, size, size, dtype="float32")
    for seed in range(3):
        made = {
            form: torch.from_numpy(values(spec, ValueConstraint(form=form), seed))
            for form in ("spd", "regular", "lower", "upper")
        }
        assert torch.equal(made["spd"], made["spd"].mT) and (torch.linalg.eigvalsh(made["spd"]) > 0.5).all()
        assert (torch.linalg.cond(made["regular"]) < 100).all()
        assert torch.equal(made["lower"], made["lower"].tril()) and torch.equal(made["upper"], made["upper"].triu())
        assert (made["lower"].diagonal(dim1=-2, dim2=-1) >= 1).all()


def test_large_tensors_carry_no_bytes() -> None:
    assert structured_recipe(floats(200, 200), ValueConstraint(form="spd"), 0, 1024) is None
    assert isinstance(recipe_for(floats(9000, dtype="int64"), ValueConstraint(0, 50, "sorted"), 0), Constant)


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float64", "float8_e5m2", "int8", "uint8", "int64", "bool", "complex64"]
)
def test_every_dtype_has_plain_values(dtype: str) -> None:
    found = values(floats(64, dtype=dtype), ValueConstraint())
    assert found.dtype == numpy_dtype(dtype) and len(np.unique(found.view(np.uint8))) > 1


# ---- who keeps what --------------------------------------------------------------------------------------------------


def test_captured_numbers_are_kept_and_seeded_ones_that_do_not_fit_are_replaced() -> None:
    negative = Literal(np.full(24, -1.0, "float32").tobytes())
    recipes_given = (Uniform(7, 1.0, 2.0), Normal(8), negative, Constant(0.0))
    graph = Graph(
        tuple(border(X, recipe, "buffer") for recipe in recipes_given),
        tuple(call("log.default", Ref(number), out=X) for number in range(4)),
        (4, 5, 6, 7),
    )
    edits, _ = recipes(graph, random.Random(0))
    assert [edit.number for edit in edits] == [1]


def test_an_edited_graph_is_mended_where_a_recipe_no_longer_suits() -> None:
    inputs = (border(X, Normal(8)), border(X, Normal(9)), border(X))
    before = Graph(inputs, tuple(call("sin.default", Ref(number), out=X) for number in range(3)), (3, 4, 5))
    after = Graph(
        inputs, (call("log.default", Ref(0), out=X), call("sin.default", Ref(1), out=X), before.nodes[2]), (3, 4, 5)
    )
    edits, _ = recipes(after, random.Random(0), before=before)
    assert [edit.number for edit in edits] == [0]
    assert recipes(after, random.Random(0), before=after)[0] == ()


def test_exceptional_values_go_where_nothing_is_held() -> None:
    graph = Graph((border(X), border(IDS)), (call("embedding.default", Ref(0), Ref(1), out=floats(5, 6)),), (2,))
    found, held = filled(graph, exceptional=True)
    assert isinstance(found.inputs[0].recipe, Exceptional) and isinstance(found.inputs[1].recipe, Integers)
    assert held == {1}
    assert recipes(found, random.Random(0), before=graph)[0] == ()


def test_inputs_are_held_where_more_than_a_range_depends_on_them() -> None:
    flags = floats(4, 6, dtype="bool")
    strange = TensorSpec("float32", (4, 6), (1, 4))
    last = TensorSpec("float32", (2, 3, 4, 4), (48, 1, 12, 3))
    graph = Graph(
        (border(X), border(X), border(X), border(strange), border(last), border(floats(9))),
        (
            call("gt.Scalar", Ref(0), 0.0, out=flags),
            call("masked_select.default", Ref(1), Ref(6), out=floats(7)),
            call("add_.Tensor", Ref(2), 1.0, out=X),
            call("sin.default", Ref(3), out=strange),
            call("sin.default", Ref(4), out=last),
            call("argmax.default", Ref(5), 0, out=floats(dtype="int64")),
            call("index_select.default", Ref(1), 0, Ref(11), out=X),
            call("bucketize.Tensor", Ref(1), Ref(5), out=X),
        ),
        (7, 9, 10, 12, 13),
    )
    _, held = filled(graph)
    assert held == {0, 2, 3, 5}


def test_a_float_that_only_selects_what_is_in_range_is_free() -> None:
    graph = Graph(
        (border(X), border(floats(4))),
        (
            call("argmax.default", Ref(1), 0, out=floats(dtype="int64")),
            call("index_select.default", Ref(0), 0, Ref(2), out=X),
        ),
        (3,),
    )
    assert filled(graph)[1] == frozenset()


def test_the_same_seed_gives_the_same_recipes() -> None:
    graph = Graph((border(X), border(IDS)), (call("embedding.default", Ref(0), Ref(1), out=floats(5, 6)),), (2,))
    assert recipes(graph, random.Random(4)) == recipes(graph, random.Random(4))


def test_a_draft_whose_specs_are_not_known_gets_the_safest_index() -> None:
    graph = Graph(
        (border(X), border(IDS)),
        (
            call("sin.default", Ref(0), out=(None,)),
            call("embedding.default", Ref(2), Ref(1), out=(None,)),
        ),
        (3,),
    )
    assert bounds(graph, 1) == (0, 0)
    assert constraints_of(graph, value_rules()).of[1].form == "index"


def test_masks_hold_both_values_and_a_lone_flag_is_true() -> None:
    assert set(np.unique(values(floats(64, dtype="bool"), ValueConstraint()))) == {False, True}
    assert recipe_for(floats(dtype="bool"), ValueConstraint(), 0) == Constant(True)


def test_bytes_have_bounds() -> None:
    assert bounds_of(Input(floats(2), Literal(np.array([3.0, -1.0], "float32").tobytes()))) == (-1.0, 3.0)


def test_the_smaller_of_two_tensors_is_no_index_in_range() -> None:
    whole = floats(4, 6, dtype="int64")
    graph = Graph(
        (border(X), border(floats(9, 6)), border(floats(dtype="int64"), Constant(8))),
        (
            call("to.dtype", Ref(0), DType("int64"), out=whole),
            call("min.other", Ref(2), Ref(3), out=whole),
            call("embedding.default", Ref(1), Ref(4), out=floats(4, 6, 6)),
        ),
        (5,),
    )
    assert filled(graph)[1] == {0, 2}
