"""What quantisation costs: of the output that differs most, beside the verdict in the text, the page and the JSON."""

from __future__ import annotations

import io
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from mindgap.aten.tensors import to_numpy
from mindgap.cli.tables import print_report
from mindgap.report.page import html_page
from mindgap.results.argument_sets import joined
from mindgap.results.quantisation_cost import QuantisationCost, cost_of
from mindgap.results.report_json import decode_report, encode_report
from report.report_sample import sample

FLOATS = np.array([1.0, -4.0, 0.0, 3.0], np.float32)


def moved(*by: float) -> np.ndarray:
    return FLOATS + np.array(by, np.float32)


def test_the_largest_and_the_mean_difference_of_the_worst_output() -> None:
    found = cost_of("f.py:floats", [FLOATS, moved(0.0, 0.5, 0.1, -0.2)], [FLOATS, FLOATS])
    assert (found.output, found.reason) == (1, "")
    assert found.largest == pytest.approx(0.5 / 4) and found.mean == pytest.approx(0.8 / 8)
    words = "quantisation costs 12% at most and 10% on average of output 1 against f.py:floats, on the reference"
    assert found.words.startswith(words)


@pytest.mark.parametrize(("ours", "theirs", "largest", "mean"), [
    (FLOATS, FLOATS, 0.0, 0.0), (FLOATS, FLOATS * 0, math.inf, math.inf),
    (moved(math.nan, 0, 0, 0), FLOATS, math.inf, 0.0), (moved(math.nan, 0, 0, 0), moved(math.nan, 0, 0, 0), 0.0, 0.0),
])  # fmt: skip
def test_zeros_and_what_is_not_finite(ours: np.ndarray, theirs: np.ndarray, largest: float, mean: float) -> None:
    found = cost_of("f", [ours], [theirs])
    assert (found.largest, found.mean) == (largest, mean)


def test_outputs_of_sixteen_bits_are_floats() -> None:
    halves = [to_numpy(torch.tensor(each, dtype=torch.bfloat16)) for each in ([1.0, -4.0], [1.0, -3.0])]
    assert cost_of("f", halves[1:], halves[:1]).largest == pytest.approx(1 / 4)


def test_other_outputs_are_not_compared() -> None:
    assert cost_of("f", [FLOATS], [FLOATS[:2]]).reason == (
        "it returns float32[2] where the quantised model returns float32[4]"
    )
    assert cost_of("f", [FLOATS.astype(np.uint8)], [FLOATS.astype(np.uint8)]).reason == "no output is a float"


def test_it_stands_beside_the_verdict_and_leaves_it_as_it_is() -> None:
    plain, cost = sample(), QuantisationCost("f.py:floats", math.inf, 0.25)
    report = replace(plain, models=(replace(plain.models[0], quantisation_cost=cost), *plain.models[1:]))
    out = io.StringIO()
    print_report(report, out)
    line = f"{report.models[0].name}: {cost.words}"
    assert line in out.getvalue() and line in html_page(report)
    read = decode_report(encode_report(report))
    assert read.models[0].quantisation_cost == cost and read.rows == decode_report(encode_report(plain)).rows


def test_of_several_sets_of_arguments_the_worst_is_told() -> None:
    plain = sample()
    costs = [QuantisationCost("f", 0.1, 0.1), QuantisationCost("f", 0.3, 0.2)]
    models = [replace(plain.models[0], name=f"m{i}", quantisation_cost=each) for i, each in enumerate(costs)]
    report = replace(plain, models=tuple(models), rows=())
    assert joined(report, {"m0": "m", "m1": "m"}).models[0].quantisation_cost == costs[1]
