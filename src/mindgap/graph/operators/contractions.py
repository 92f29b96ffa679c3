"""Sums of products along a dimension: matrix products, convolutions, outer products."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

CONTRACTIONS = family(
    "contractions",
    (
        "_addmm_activation _grouped_mm _scaled_mm _scaled_mm_v2 _trilinear addbmm addmm addmv baddbmm bilinear bmm "
        "dot einsum inner linalg_multi_dot linalg_vecdot linear linear_backward matmul mm mv tensordot vdot",
        Traits(contracts=True),
    ),
    # Winograd's algorithm brings NaN to all elements of a tile; an infinite weight meets padding, or does not.
    (
        "_convolution _slow_conv2d_backward _slow_conv2d_forward conv1d conv2d conv3d conv_tbc conv_transpose1d "
        "conv_transpose2d conv_transpose3d convolution convolution_backward",
        Traits(contracts=True, undefined_if_not_finite="not NaN"),
    ),
    ("cumulative_trapezoid trapezoid trapz", Traits(intermediates="squares", rounds_each_step=True)),
    ("addr cross kron linalg_cross outer", Traits()),
)
