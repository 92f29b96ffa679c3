import numpy as np
import pytest

from mindgap.graph import MindgapError
from mindgap_studies.equivalence.prefix_digests import dendrogram_of, prefix_digests, shared_bits


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
