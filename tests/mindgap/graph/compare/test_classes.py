"""Equivalence classes are a partition by digests, in a stable order."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, strategies as st

from mindgap.graph.compare.digest import digest_array
from mindgap.graph.compare.verdict import equivalence_classes


@given(
    st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.tuples(st.sampled_from("xy"), st.sampled_from("xyz")))
)
def test_it_is_the_partition(outcomes: dict[str, tuple[str, ...]]) -> None:
    classes = equivalence_classes(outcomes)
    assert sorted(p for c in classes for p in c) == sorted(outcomes)
    of = {p: i for i, c in enumerate(classes) for p in c}
    assert all((outcomes[p] == outcomes[q]) == (of[p] == of[q]) for p in outcomes for q in outcomes)
    assert [len(c) for c in classes] == sorted((len(c) for c in classes), reverse=True)
    assert equivalence_classes(dict(reversed(outcomes.items()))) == classes


def test_nan_outputs_share_a_class() -> None:
    values = {"a": [math.nan, 1.0], "b": [-math.nan, 1.0], "c": [0.0, 1.0], "d": [-0.0, 1.0]}
    digests = {name: (digest_array(np.array(v, np.float32)),) for name, v in values.items()}
    assert equivalence_classes(digests) == [{"a", "b"}, {"c"}, {"d"}]
