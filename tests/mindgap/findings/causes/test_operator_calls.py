"""Calls of captured models are counted by model, whole functions or those that meet a condition."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from mindgap.findings.causes.call_predicate import OperatorCall
from mindgap.findings.causes.operator_calls import (
    TABLE,
    call_table,
    counted_models,
    models_meeting,
    models_using,
    read_table,
    table_bytes,
)
from mindgap.graph import MindgapError

DEFAULTS = {
    "aten.sum.default": {"dtype": None},
    "aten.sum.dim_IntList": {"dim": None, "keepdim": False, "dtype": None},
    "aten.layer_norm.default": {"weight": None, "eps": 1e-5},
}


def sum_of(shape: tuple[int, ...], **args: object) -> OperatorCall:
    return OperatorCall("aten.sum.dim_IntList", args, ("self",), ("float32",), (shape,))


def test_a_model_counts_once_and_unions_are_exact() -> None:
    calls = {
        0: [sum_of((2, 3), dim=[0]), sum_of((), dim=[])],
        1: [sum_of((2, 3), dim=[0], keepdim=True)],
        2: [OperatorCall("aten.sum.default", {}, ("self",), ("int64",), ((),))],
        3: [],
    }
    table = read_table(table_bytes(calls, DEFAULTS, unfinished=1))
    assert (table.models, table.unfinished, table.models_meeting(["sum"])) == (4, 1, 3)
    assert table.models_meeting(["sum"], "len(shapes[0]) == 0") == 2
    assert table.models_meeting(["aten.sum.default"], "args.get('keepdim') is False") == 1, "a default counts as given"
    assert table.models_meeting(["sum", "sum"], "'int64' in dtypes or args.get('keepdim')") == 2
    assert table.models_meeting(["mean"], "args['anything'] == 1") == 0
    with pytest.raises(MindgapError, match="sum has no argument dims"):
        table.models_meeting(["sum"], "args.get('dims') is None")


def test_a_tensor_argument_is_none_where_it_is_not_given_and_absent_where_it_is() -> None:
    with_weight = OperatorCall("aten.layer_norm.default", {}, ("input", "weight"), ("float32",) * 2, ((2,), (2,)))
    without = OperatorCall("aten.layer_norm.default", {"weight": None}, ("input",), ("float32",), ((2,),))
    table = read_table(table_bytes({0: [with_weight], 1: [without]}, DEFAULTS))
    assert table.models_meeting(["layer_norm"], "'weight' in args and args['weight'] is None") == 1
    assert table.models_meeting(["layer_norm"], "'weight' in tensors") == 1


@given(st.lists(st.sets(st.sampled_from([(), (0,), (1, 2), (5,)])), min_size=1, max_size=9))
def test_counts_are_those_of_a_plain_loop(models: list[set[tuple[int, ...]]]) -> None:
    calls = {number: [sum_of(shape, dim=[0]) for shape in shapes] for number, shapes in enumerate(models)}
    table = read_table(table_bytes(calls, DEFAULTS))
    assert table.models_meeting(["sum"], "0 in shapes[0]") == sum((0,) in shapes for shapes in models)
    assert table.models_meeting(["sum"]) == sum(bool(shapes) for shapes in models)
    assert table_bytes(dict(reversed(calls.items())), DEFAULTS) == table_bytes(calls, DEFAULTS)


def test_the_table_that_comes_with_mindgap_has_the_models_of_graphnet() -> None:
    assert counted_models() == 2252 and call_table().unfinished < 10 and TABLE.stat().st_size < 1 << 20
    assert models_using("aten.native_layer_norm_backward.default") == models_using("aten.layer_norm.default") > 1000
    assert models_using("aten.no_such_thing.default") == 0
    assert models_meeting(["avg_pool2d"], 'args.get("divisor_override") is not None') == 0
    training = models_meeting(["batch_norm"], 'args.get("training") is True')
    assert 0 < training < 20 < models_using("batch_norm")
    assert models_meeting(["conv2d"], "len(shapes[0]) == 4") == models_using("conv2d"), "none is without a batch"
    both = models_meeting(["relu", "gelu"])
    assert max(models_using("relu"), models_using("gelu")) < both < models_using("relu") + models_using("gelu")
