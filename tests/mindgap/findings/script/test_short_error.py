"""The error that a short script prints and decides by."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mindgap.findings.script.frame import error_source


def error_of(each_element: bool) -> Any:
    names: dict[str, Any] = {"torch": torch}
    exec(error_source("element" if each_element else "largest"), names)
    return lambda found, exact: names["off"](found, exact).max().item()


@pytest.mark.parametrize(("each_element", "expected"), [(False, 1e-9), (True, 0.1)])
def test_a_small_element_counts_by_itself_where_asked(each_element: bool, expected: float) -> None:
    exact = torch.tensor([1e-8, 1.0, 0.0], dtype=torch.float64)
    found = torch.tensor([1.1e-8, 1.0, 0.0], dtype=torch.float64)
    error = error_of(each_element)
    assert error(found, exact) == pytest.approx(expected)
    assert error(exact, exact) == 0.0
    assert error(found * torch.nan, exact) == float("inf")


def test_a_difference_from_zero_is_infinitely_far_for_the_element() -> None:
    exact, found = torch.tensor([0.0, 1.0]), torch.tensor([1e-9, 1.0])
    assert error_of(True)(found, exact) == float("inf")
    assert error_of(False)(found, exact) == pytest.approx(1e-9)


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.uint8])
def test_elements_that_are_no_floats_are_equal_or_infinitely_far(dtype: torch.dtype) -> None:
    exact = torch.tensor([0, 1, 1]).to(dtype)
    found = torch.tensor([0, 1, 0]).to(dtype)
    for each_element in (False, True):
        assert error_of(each_element)(found, exact) == float("inf")
        assert error_of(each_element)(exact, exact) == 0.0
