"""Order statistics: maxima, sorting, ranks, unique elements, searches in sorted tensors."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

ORDERING = family(
    "ordering",
    ("argmax argmin", Traits(decides="order", first_of_equals=True, reduces=True)),
    ("median mode nanmedian", Traits(decides="order", reduces=True)),
    ("argsort", Traits(decides="order")),
    ("cummax cummin sort topk", Traits(moves_data=True, decides="order")),
    ("kthvalue", Traits(moves_data=True, decides="order", reduces=True)),
    ("max min", Traits(moves_data=True, non_smooth="bent", decides="order", first_of_equals=True, reduces=True)),
    ("amax amin", Traits(moves_data=True, non_smooth="bent", reduces=True)),
    ("aminmax", Traits(moves_data=True, reduces=True)),
    ("msort", Traits(moves_data=True)),
    ("nanquantile quantile", Traits(reduces=True)),
    ("_unique2 bucketize nonzero nonzero_static searchsorted unique_consecutive", Traits()),
)
