"""Pooling over windows, and its gradients."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

POOLING = family(
    "pooling",
    (
        "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d "
        "fractional_max_pool3d max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices",
        Traits(moves_data=True, decides="pooling"),
    ),
    ("max_pool1d max_pool2d max_pool3d", Traits(moves_data=True)),
    (
        "_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d "
        "_adaptive_avg_pool3d_backward adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
        "adaptive_max_pool2d_backward adaptive_max_pool3d_backward avg_pool1d avg_pool2d avg_pool2d_backward "
        "avg_pool3d avg_pool3d_backward fractional_max_pool2d_backward fractional_max_pool3d_backward "
        "max_pool2d_with_indices_backward max_pool3d_with_indices_backward max_unpool2d max_unpool3d",
        Traits(),
    ),
)
