"""Whether a program's own outputs are wrong in elements that the captured graph has right on the same platform."""

from __future__ import annotations

import dataclasses
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from mindgap.judge.pipeline.own_path_comparison import _is_wrong_elsewhere
from report.report_sample import sample

RIGHT = np.arange(1.0, 201.0, dtype=np.float32)


def changed(by: float, places: slice, dtype: Any = np.float32) -> Any:
    array = RIGHT.copy()
    array[places] += by
    return array.astype(dtype)


@pytest.mark.parametrize(
    ("own", "graph", "wrong"),
    [
        (changed(50, slice(0, 20)), changed(50, slice(100, 120)), True),
        (changed(50, slice(0, 20)), changed(50, slice(0, 20)), False),
        (changed(50, slice(0, 20)), changed(40, slice(0, 40)), False),
        (changed(50, slice(0, 2)), RIGHT, False),  # one in a hundred
        (changed(50, slice(0, 20)), changed(np.nan, slice(0, 20)), False),  # NaN is not right
        (changed(np.nan, slice(0, 20)), RIGHT, False),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.complex64, ml_dtypes.bfloat16, np.int32])
def test_elements_that_only_the_export_has_wrong(own: Any, graph: Any, wrong: bool, dtype: Any) -> None:
    if dtype == np.int32 and not (np.isfinite(own).all() and np.isfinite(graph).all()):
        pytest.skip("integers have no NaN")
    row = dataclasses.replace(sample().rows[0], verdict="discrepant", faults=())
    sides = [[each.astype(dtype)] for each in (own, graph, RIGHT)]
    assert _is_wrong_elsewhere(row, *sides) is wrong
    narrow = dataclasses.replace(row, verdict="reduced_precision")
    assert not _is_wrong_elsewhere(narrow, *sides)
