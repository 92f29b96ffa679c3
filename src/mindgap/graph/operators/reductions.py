"""Reductions over dimensions and running sums."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

REDUCTIONS = family(
    "reductions",
    ("cumprod", Traits(intermediates="products", complex_intermediates="magnitude")),
    ("segment_reduce", Traits(intermediates="sums")),
    ("prod", Traits(reduces=True, intermediates="products", complex_intermediates="exponential")),
    ("linalg_vector_norm norm std std_mean var var_mean", Traits(reduces=True, intermediates="squares")),
    (
        "all any count_nonzero frobenius_norm linalg_matrix_norm mean nanmean nansum nuclear_norm sum "
        "sum_to_size trace",
        Traits(reduces=True),
    ),
    ("_segment_reduce_backward bincount cumsum histc histogram histogramdd renorm", Traits()),
)
