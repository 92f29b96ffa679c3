"""Compares a model with its reference on several platforms: `pytest examples/test_my_model.py`.

The fixture `mindgap_diff` and the marker `mindgap` come with mindgap. A failing test shows the verdict, the operator
that causes it, its line of the model, and the side that is wrong. The worker processes serve all tests of one run.
"""

from __future__ import annotations

import pathlib
import runpy

import pytest

make = runpy.run_path(str(pathlib.Path(__file__).with_name("my_model.py")))["make"]


@pytest.mark.mindgap(platforms=["cpu/jit", "onnxruntime/cpu", "openvino/cpu@precision=f32"])
def test_my_model(mindgap_diff):
    mindgap_diff(*make())


@pytest.mark.parametrize("platform", ["cpu/eager@isa=avx2", "cpu/jit"])
def test_gradients(mindgap_diff, platform):
    """One test per platform: the name of a failing test names the platform."""
    mindgap_diff(*make(), platforms=[platform], backward=True)
