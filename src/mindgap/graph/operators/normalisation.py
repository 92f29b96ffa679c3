"""Batch, layer, group, instance and RMS normalisation, and their gradients."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

NORMALISATION = family(
    "normalisation",
    ("batch_norm group_norm instance_norm layer_norm rms_norm", Traits(intermediates="squares")),
    (
        "_native_batch_norm_legit _native_batch_norm_legit_functional native_batch_norm native_group_norm "
        "native_layer_norm",
        Traits(internal_outputs=(1, 2), intermediates="squares"),
    ),
    ("_native_batch_norm_legit_no_training miopen_batch_norm", Traits(internal_outputs=(1, 2))),
    (
        "_batch_norm_no_update _batch_norm_with_update _batch_norm_with_update_functional cudnn_batch_norm",
        Traits(internal_outputs=(1, 2, 3)),
    ),
    ("_batch_norm_impl_index", Traits(internal_outputs=(1, 2, 3, 4))),
    ("_fused_rms_norm", Traits(internal_outputs=(1,), intermediates="squares")),
    ("_weight_norm_interface", Traits(internal_outputs=(1,))),
    ("batch_norm_backward native_batch_norm_backward native_group_norm_backward native_layer_norm_backward", Traits()),
)
