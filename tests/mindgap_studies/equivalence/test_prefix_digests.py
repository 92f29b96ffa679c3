import itertools

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from mindgap.graph import MindgapError
from mindgap_studies.equivalence import ultrametric
from mindgap_studies.equivalence.prefix_digests import dendrogram_of, prefix_digests, shared_bits


def near(count, dtype, seed, size=50):
    """Tensors that differ from one another after unlike numbers of mantissa bits."""
    draw = np.random.Generator(np.random.PCG64(seed))
    first = draw.uniform(-4, 4, size)
    found = [first]
    while len(found) < count:
        parent = found[int(draw.integers(len(found)))]
        found.append(parent * (1 + 2.0 ** -int(draw.integers(0, 26)) * (draw.random(size) < 0.1)))
    return [each.astype(dtype) for each in found]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
@given(seed=st.integers(0, 10_000), count=st.integers(1, 7))
def test_digests_give_the_dendrogram_of_the_tensors(dtype, seed, count):
    tensors = near(count, dtype, seed)
    found = dendrogram_of([prefix_digests(each) for each in tensors])
    direct = ultrametric.dendrogram(count, tensors.__getitem__)
    assert found.minimum == direct.minimum
    assert found.merges() == direct.merges()
    for i, j in itertools.product(range(count), repeat=2):
        assert found.precision(i, j) == direct.precision(i, j)


def test_special_values():
    def bits(a, b):
        return shared_bits(*(prefix_digests(np.array([1.0, each], np.float32)) for each in (a, b)))

    assert bits(np.nan, -np.nan) == 23
    assert bits(0.0, -0.0) == 0
    assert bits(1.0, 2.0) == 0
    assert bits(1.0, 1.0 + 2.0**-23) == 22
    assert bits(np.inf, np.nan) == 0


def test_shape_and_dtype_are_in_the_digests():
    values = np.arange(6, dtype=np.float32)
    assert shared_bits(prefix_digests(values), prefix_digests(values.reshape(2, 3))) == 0


def test_no_tensors_and_unlike_dtypes_are_refused():
    one = np.ones(3, np.float32)
    with pytest.raises(MindgapError, match="no tensors"):
        dendrogram_of([])
    with pytest.raises(MindgapError, match="one dtype"):
        dendrogram_of([prefix_digests(one), prefix_digests(one.astype(np.float16))])
    with pytest.raises(MindgapError, match="int64"):
        prefix_digests(np.arange(3))
