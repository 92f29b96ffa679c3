"""Compares a model with its reference on several platforms: `pytest examples/test_my_model.py`.

There is one test per platform, so that the name of a failing test names the platform. To accept known findings and fail
only on new ones, use a baseline: `report = Baseline.load("known.json").mark(report)`. Then assert on
`report.new_findings`.
"""

from __future__ import annotations

import pathlib
import runpy

import pytest

import mindgap
from mindgap.report.words import explain

PLATFORMS = ["cpu/eager@isa=avx2", "onnxruntime/cpu", "openvino/cpu@precision=f32"]
HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="module")
def report() -> mindgap.Report:
    """Runs the model once on all platforms, for all tests of this module."""
    model, args = runpy.run_path(str(HERE / "my_model.py"))["make"]()
    return mindgap.diff(model, args, platforms=PLATFORMS, name="my_model")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_platform_agrees_with_reference(report: mindgap.Report, platform: str) -> None:
    row = next(row for row in report.rows if row.platform == platform)
    if row.verdict is None:
        pytest.skip(explain(row))
    assert not row.finding, explain(row)
