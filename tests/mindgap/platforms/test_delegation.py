"""What a delegate ran: its summary, and that a delegate which took nothing is no success."""

from __future__ import annotations

import pytest

from mindgap.platforms.delegation import Delegation, delegation_of, require_taken, total
from mindgap.platforms.protocol import Unsupported

PARTLY = Delegation("XNNPACK", {"aten.mm.default": 2, "aten.relu.default": 1}, {"aten.erf.default": 1}, "portable", 2)


def test_it_survives_as_a_fact() -> None:
    assert delegation_of({"other": 1, **PARTLY.as_fact()}) == PARTLY
    assert delegation_of({"other": 1}) is None


def test_the_summary_counts_and_names() -> None:
    assert PARTLY.summary == "XNNPACK ran 3 of 4 operators in 2 parts; portable ran aten.erf.default (1)"
    assert Delegation("CPU", {"Conv": 1}).summary == "CPU ran 1 of 1 operators"
    many = Delegation("CPU", {"Conv": 1}, {f"op{number}": 1 for number in range(10)}).summary
    assert many.endswith("op6 (1), op7 (1) and 2 more") and "another part of the runtime ran op0 (1)" in many


def test_counts_of_several_graphs_add_up() -> None:
    found = total([PARTLY, PARTLY])
    assert found.ran == {"aten.mm.default": 4, "aten.relu.default": 2}
    assert found.gave_back == {"aten.erf.default": 2} and found.parts == 4


def test_a_delegate_that_took_nothing_is_a_refusal() -> None:
    with pytest.raises(Unsupported, match=r"^aten.erf.default: XNNPACK took none of 2 operators: aten.erf.default"):
        require_taken(Delegation("XNNPACK", {}, {"aten.erf.default": 2}))
    with pytest.raises(Unsupported, match=r"^model: XNNPACK took none of 2 operators"):
        require_taken(Delegation("XNNPACK", {}, {"aten.erf.default": 1, "aten.mm.default": 1}))
    for fine in (None, PARTLY, Delegation("an empty graph", {})):
        require_taken(fine)
