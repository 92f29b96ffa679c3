"""Simulated quantisation."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

QUANTISATION = family(
    "quantisation",
    (
        "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams _fused_moving_avg_obs_fq_helper "
        "_fused_moving_avg_obs_fq_helper_functional fake_quantize_per_channel_affine_cachemask "
        "fake_quantize_per_tensor_affine_cachemask",
        Traits(internal_outputs=(1,)),
    ),
)
