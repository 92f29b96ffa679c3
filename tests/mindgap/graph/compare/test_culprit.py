"""Culprits and their texts, which stores and JSON of all versions hold."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from mindgap.graph.compare.culprit import (
    Culprit,
    DtypePolicy,
    OperatorCulprit,
    OutputsCulprit,
    culprit_json,
    culprit_of,
    policy_of,
)

KINDS: list[tuple[int, str, str, Culprit]] = [
    (3, "aten.exp.default", "net.py:3", OperatorCulprit(("aten.exp.default",), 3, "net.py:3")),
    (9, "aten.clamp.default+aten.log.default", "", OperatorCulprit(("aten.clamp.default", "aten.log.default"), 9)),
    (-1, "onnx::Foo", "", OperatorCulprit(("onnx::Foo",))),
    (-1, "dtype policy: float64 computed in float32", "", DtypePolicy("float64", "float32")),
    (-1, "dtype policy: float32 products computed in bfloat16", "", DtypePolicy("float32", "bfloat16", products=True)),
    (-1, "dtype policy: int8 saturates", "", DtypePolicy("int8", "int8")),
    (-1, "dtype policy: float64", "", DtypePolicy("float64")),
    (4, "graph outputs: a value returned twice", "net.py:9", OutputsCulprit(4, "net.py:9")),
]


@pytest.mark.parametrize(("node", "op", "label", "culprit"), KINDS)
def test_each_kind_is_read_from_its_text_and_written_as_it(node: int, op: str, label: str, culprit: Culprit) -> None:
    assert culprit_of(node, op, label) == culprit
    assert culprit_json(culprit) == {"node": node, "op": op, "label": label}
    assert list(culprit_json(culprit)) == ["node", "op", "label"], "the order of the fields in JSON"


pieces = st.sampled_from(
    [
        "dtype policy: ",
        "graph outputs",
        ": ",
        "int8",
        " ",
        "products",
        "computed in",
        "saturates",
        "+",
        "aten.add.Tensor",
    ]
)


@given(
    st.integers(-1, 9), st.lists(st.one_of(pieces, st.text(max_size=3)), max_size=8).map("".join), st.text(max_size=3)
)
def test_any_text_of_a_store_stays_as_it_is(node: int, op: str, label: str) -> None:
    assert culprit_json(culprit_of(node, op, label)) == {"node": node, "op": op, "label": label}


def test_overloads_are_no_names_of_a_message() -> None:
    assert culprit_of(-1, "aten.add.Tensor+onnx::Foo").overloads == ("aten.add.Tensor",)
    assert culprit_of(-1, "dtype policy: int8 saturates").overloads == ()
    policy = policy_of("dtype policy: int8 saturates")
    assert policy is not None and policy.saturates and policy_of("aten.add.Tensor") is None
