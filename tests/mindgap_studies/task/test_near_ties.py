"""Which samples rounding can flip, on a layer whose two best classes are apart by a chosen amount."""

import numpy as np
import pytest
import torch

from mindgap.graph import default_tensor_store
from mindgap.graph_capture import capture
from mindgap_studies.task_runs.columns import ModelForm
from mindgap_studies.task_runs.near_ties import exact_outputs, near_tie


@pytest.fixture(scope="module")
def found():
    """The exact outputs of two samples. In the first, classes 0 and 1 differ by 2e-8 of a sum of 64 products; in the
    second by 1e-2."""
    torch.manual_seed(0)
    model = torch.nn.Linear(64, 3, bias=False)
    with torch.no_grad():
        model.weight[1] = model.weight[0]
        model.weight[1, 0] += 1e-2
        model.weight[2] = -model.weight[0]
    x = torch.sign(model.weight[:1]).repeat(2, 1).detach()
    x[0, 0], x[1, 0] = 2e-6, 1.0
    with torch.no_grad():
        graph = capture(model, (x,))
    form = ModelForm("", "linear", graph)
    assert form.batch == 2 and [each.shape for each in form.input_forms()] == [(64,)]
    return exact_outputs(form, [x.numpy()], default_tensor_store()), model, x


def test_exact_outputs_are_those_of_float64(found) -> None:
    exact, model, x = found
    assert np.allclose(exact.exact, (x.double() @ model.weight.detach().double().T).numpy(), rtol=1e-6)
    # A sum of 64 products of float32 errs by more than a unit in the last place, and by far less than a thousandth.
    assert (exact.limits > 2.0**-24 * abs(exact.exact)).all() and (exact.limits < 1e-3).all()


def test_a_margin_below_the_limit_is_in_danger(found) -> None:
    exact, _, _ = found
    assert exact.decides(5e-3) and not exact.decides(5e-5)
    near, far = (near_tie("", sample, sample, exact) for sample in (0, 1))
    assert {near.best, near.rival} == {0, 1} and near.in_danger and near.margin < 1e-6
    assert (far.best, far.rival) == (1, 0) and not far.in_danger and far.margin == pytest.approx(1e-2, rel=1e-3)
    assert exact.between((0,), 0, 1)[0] == pytest.approx(near.margin)
    margin, limit = exact.between((1,), 1, 2)
    assert margin > 1000 * limit
