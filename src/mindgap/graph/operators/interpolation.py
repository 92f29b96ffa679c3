"""Resampling of images and of sampling grids, and its gradients."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

INTERPOLATION = family(
    "interpolation",
    ("_upsample_bicubic2d_aa grid_sampler grid_sampler_2d upsample_bicubic2d", Traits(intermediates="signed weights")),
    (
        "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d upsample_nearest1d "
        "upsample_nearest2d upsample_nearest3d",
        Traits(moves_data=True),
    ),
    (
        "_upsample_bicubic2d_aa_backward _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward "
        "_upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward "
        "_upsample_nearest_exact3d_backward grid_sampler_2d_backward grid_sampler_3d grid_sampler_3d_backward "
        "upsample_bicubic2d_backward upsample_bilinear2d upsample_bilinear2d_backward "
        "upsample_linear1d upsample_linear1d_backward upsample_nearest1d_backward upsample_nearest2d_backward "
        "upsample_nearest3d_backward upsample_trilinear3d upsample_trilinear3d_backward",
        Traits(),
    ),
)
