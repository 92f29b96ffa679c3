"""Which operator a converter's message is about."""

from __future__ import annotations

import pytest

from mindgap.platforms.pytorch.compilation.exported_program import operator_named

CALLED = (
    "aten.view.default",
    "aten.view_copy.default",
    "aten._to_copy.default",
    "aten.unbind_copy.int",
    "aten.add.Tensor",
)


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("missing kernel aten::view_copy.out", "aten.view_copy.default"), ("aten.view.default", "aten.view.default"),
        ("aten::_to_copy.out failed", "aten._to_copy.default"), ("aten::unbind_copy.int_out", "aten.unbind_copy.int"),
        ("no aten::add_copy", "aten.add.Tensor"), ("no aten::mul.out", "aten.mul.out"), ("no operator", ""),
    ],
)  # fmt: skip
def test_an_operator_is_found_as_the_program_calls_it(message: str, named: str) -> None:
    assert operator_named(message, CALLED) == named


def test_a_program_of_one_operator_needs_no_name() -> None:
    assert operator_named("it failed", ("aten.add.Tensor", "aten.add.Tensor")) == "aten.add.Tensor"
