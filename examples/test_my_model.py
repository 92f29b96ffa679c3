"""A model held to its platforms in a test suite: `pytest examples/test_my_model.py`.

One test per platform, so that the one that starts to disagree is the one that fails. To accept what
is known and fail on what is new only, mark the report with a baseline first:
`Baseline.load("known.json").mark(report)`, and look at `report.new_findings`.
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
    """One run for all the tests: the model is captured once, and the reference runs once."""
    model, args = runpy.run_path(str(HERE / "my_model.py"))["make"]()
    return mindgap.diff(model, args, platforms=PLATFORMS, name="my_model")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_it_behaves_alike(report: mindgap.Report, platform: str) -> None:
    row = next(row for row in report.rows if row.platform == platform)
    if row.verdict is None:
        pytest.skip(explain(row))
    assert not row.finding, explain(row)
