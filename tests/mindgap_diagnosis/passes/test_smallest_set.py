"""The search for a smallest set against an exhaustive one."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import given, strategies

from mindgap_diagnosis.passes.at_fault import smallest_set


@given(strategies.sets(strategies.integers(0, 60), min_size=1, max_size=3))
def test_all_that_are_needed_and_no_other(needed: set[int]) -> None:
    calls: list[Sequence[str]] = []

    def right(names: Sequence[str]) -> bool:
        calls.append(names)
        return {str(each) for each in needed} <= {*names}

    found = smallest_set([str(each) for each in range(61)], right)
    assert {int(each) for each in found} == needed and len(found) == len(needed)
    assert len(calls) <= len(needed) * (math.ceil(math.log2(61)) + 1)


@given(strategies.sets(strategies.integers(0, 60), min_size=2))
def test_one_of_several_that_suffice_alone(enough: set[int]) -> None:
    found = smallest_set([str(each) for each in range(61)], lambda names: any(int(each) in enough for each in names))
    assert len(found) == 1 and int(found[0]) in enough
