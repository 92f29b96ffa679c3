"""The registry of operator facts: complete for the bound rules, without misspelt names, true of PyTorch's schemas."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mindgap.graph.operators import FAMILIES, TRAITS, UNCLASSIFIED, Traits, traits
from mindgap.graph.operators.operator_traits import family
from mindgap.judge.oracle.bounds import rules as bounds
from mindgap.judge.oracle.decisions import STEPS

#: Names that this build of PyTorch has on other hardware, in Python only, or in another namespace.
ELSEWHERE = {
    "_linear_cross_entropy_batch_chunked": "torch_nn",
    "_linear_cross_entropy_batch_chunked_no_reduction": "torch_nn",
}
#: Names that one of the supported versions of PyTorch has, and another not.
ONE_VERSION = {
    "cholesky": "2.13",
    "qr": "2.13",
    "linalg_matrix_sqrth": "2.14",
    "linalg_polar": "2.14",
}


def packet(name: str) -> Any:
    return getattr(getattr(torch.ops, ELSEWHERE.get(name, "aten")), name)


def exists(name: str) -> bool:
    packet_name, _, overload = name.partition(".")
    if packet_name in ELSEWHERE or not torch.__version__.startswith(ONE_VERSION.get(packet_name, "")):
        return True
    found = packet(packet_name) if hasattr(torch.ops.aten, packet_name) else None
    in_place = hasattr(torch.ops.aten, f"{packet_name}_")
    return in_place if found is None else not overload or overload in found.overloads()


def test_no_name_is_misspelt() -> None:
    assert [name for name in TRAITS if not exists(name)] == []


def test_every_operator_with_a_bound_rule_is_classified() -> None:
    assert [name for name in bounds._RULES if traits(name) is UNCLASSIFIED] == []


def test_an_operator_is_in_one_family() -> None:
    names = [name for found in FAMILIES for name in found]
    assert len(names) == len(set(names)) == len(TRAITS)
    assert all(traits(name).family for name in names)
    with pytest.raises(ValueError, match="occurs twice"):
        family("two", ("relu tanh", Traits()), ("tanh", Traits()))


@pytest.mark.parametrize("op", ["aten.relu_.default", "aten.relu.default", "relu", "relu_"])
def test_overloads_and_in_place_forms_share_traits(op: str) -> None:
    assert traits(op) is traits("relu") and traits(op).non_smooth == "bent"


def test_an_overload_may_have_traits_of_its_own() -> None:
    assert traits("aten.view.dtype").depends_on_dtype and not traits("aten.view.default").depends_on_dtype


def test_operators_of_other_libraries_are_not_taken_for_those_of_pytorch() -> None:
    assert traits("mylib.copy.default") is UNCLASSIFIED and not traits("aten.__and__.Tensor").casts


@pytest.mark.parametrize(
    ("trait", "names"),
    [
        ("casts", "to _to_copy type_as copy copy_"),
        ("returns_uninitialised", "empty empty_like new_empty empty_strided new_empty_strided empty_permuted"),
        ("hands_on", "view moveaxis swapaxes type_as concatenate view_copy"),
        ("promotes", "ne not_equal gt greater add"),
        ("fills", "where"),
        ("contracts", "mm lstm convolution cdist scaled_dot_product_attention"),
    ],
)
def test_names_of_one_thing_have_one_trait(trait: str, names: str) -> None:
    assert [name for name in names.split() if not getattr(traits(name), trait)] == []


def test_aliases_have_the_same_traits() -> None:
    pairs = [
        ("ne", "not_equal"), ("gt", "greater"), ("le", "less_equal"), ("clamp", "clip"), ("cat", "concatenate"),
        ("cat", "concat"), ("div", "true_divide"), ("div", "divide"), ("sub", "subtract"), ("mul", "multiply"),
        ("moveaxis", "movedim"), ("swapaxes", "swapdims"), ("abs", "absolute"), ("neg", "negative"),
        ("bitwise_left_shift", "__lshift__"),
    ]  # fmt: skip
    assert [(a, b) for a, b in pairs if traits(a) != traits(b)] == []


def test_steps_have_functions() -> None:
    assert {name for name, known in TRAITS.items() if known.rounds_to_steps} == set(STEPS)


def test_internal_outputs_are_results_that_operators_have() -> None:
    for name, known in TRAITS.items():
        if not known.internal_outputs:
            continue
        for overload in packet(name).overloads():
            returns = len(getattr(packet(name), overload)._schema.returns)
            assert 0 not in known.internal_outputs and max(known.internal_outputs) < returns, f"{name}.{overload}"
        assert set(known.kernel_chosen_outputs) <= set(known.internal_outputs)


def test_random_operators_are_those_that_pytorch_tags() -> None:
    for name, known in TRAITS.items():
        found = getattr(torch.ops.aten, name.partition(".")[0], None) or getattr(torch.ops.aten, f"{name}_", None)
        if not known.random or found is None:
            continue
        overloads = [getattr(found, overload) for overload in found.overloads()]
        assert any(torch.Tag.nondeterministic_seeded in overload.tags for overload in overloads), name
