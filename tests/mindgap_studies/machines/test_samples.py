import numpy as np
import pytest
import torch

from mindgap.graph import Constant, Graph, Input, Integers, MindgapError, Node, Normal, Ref, TensorSpec, TensorStore
from mindgap.graph_capture import capture
from mindgap_studies.machines.subjects import given_model
from mindgap_studies.machines.subjects.samples import sample

SPEC = TensorSpec.contiguous("float32", (64,))


def graph(*recipes):
    inputs = tuple(
        Input(TensorSpec.contiguous("int64", (64,)) if isinstance(each, Integers) else SPEC, each) for each in recipes
    )
    return Graph(inputs, (Node("aten.relu.default", (Ref(0),), (), (SPEC,)),), (len(inputs),))


def test_drawn_arguments_get_another_seed_and_constants_stay(tmp_path):
    store = TensorStore(tmp_path)
    model = graph(Normal(1), Constant(1.0), Integers(2, 3, 9))
    first, second = sample(model, 1, store), sample(model, 2, store)
    assert sample(model, 0, store) == {}
    assert set(first) == {0, 2}
    assert not np.array_equal(first[0], second[0])
    assert first[2].min() >= 3 and first[2].max() < 9
    assert np.array_equal(first[0], sample(model, 1, store)[0])


def test_a_users_own_tensor_keeps_its_elements_in_another_order(tmp_path):
    store = TensorStore(tmp_path)
    given = torch.arange(5000, dtype=torch.float32)
    model = capture(torch.relu, (given,), tensors=store)
    first = sample(model, 1, store)[0]
    assert not np.array_equal(first, given.numpy())
    assert np.array_equal(np.sort(first), given.numpy())


def test_samples_are_subjects_of_their_own(tmp_path):
    store = TensorStore(tmp_path)
    found = list(given_model("m", graph(Normal(1)), 3, store))
    assert [each.subject.name for each in found] == ["m/0", "m/1", "m/2"]
    assert len({each.subject.digest for each in found}) == 3


def test_a_model_that_has_no_second_sample_is_refused(tmp_path):
    with pytest.raises(MindgapError, match=r"m has no argument with other values .*--samples 1"):
        list(given_model("m", graph(Constant(1.0)), 2, TensorStore(tmp_path)))
    assert len(list(given_model("m", graph(Constant(1.0)), 1, TensorStore(tmp_path)))) == 1


def test_in_place_operators_and_views(tmp_path):
    """In-place operators are replaced, since an inner value must stay; views around no activation are not kept."""

    def program(x):
        y = x * 2.0
        y.relu_()
        return (y.view(8, 8).t() + 1.0).argmax()

    (found,) = given_model(
        "m", capture(program, (torch.randn(64),), tensors=TensorStore(tmp_path)), 1, TensorStore(tmp_path)
    )
    kept = [(value.op, value.dtype, value.output) for value in found.subject.values]
    assert kept == [
        ("aten.mul.Tensor", "float32", False),
        ("aten.relu.default", "float32", False),
        ("aten.add.Tensor", "float32", False),
        ("aten.argmax.default", "int64", True),
    ]
