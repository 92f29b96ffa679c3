"""Softmax and attention."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

ATTENTION = family(
    "attention",
    ("_scaled_dot_product_attention_math", Traits(contracts=True, internal_outputs=(1,))),
    ("scaled_dot_product_attention", Traits(contracts=True)),
    ("_scaled_dot_product_efficient_attention", Traits(internal_outputs=(1, 2, 3))),
    ("_flash_attention_forward", Traits(internal_outputs=(1, 2, 3, 4))),
    ("_efficient_attention_forward", Traits(internal_outputs=(1, 2, 3, 4, 5))),
    (
        "_cudnn_attention_forward _scaled_dot_product_cudnn_attention _scaled_dot_product_flash_attention "
        "_scaled_dot_product_fused_attention_overrideable",
        Traits(internal_outputs=(1, 2, 3, 4, 5, 6, 7, 8)),
    ),
    (
        "_scaled_dot_product_attention_math_for_mps _scaled_dot_product_flash_attention_for_cpu",
        Traits(internal_outputs=(1,)),
    ),
    ("logsumexp", Traits(reduces=True)),
    (
        "_log_softmax _log_softmax_backward_data _safe_softmax _softmax _softmax_backward_data log_softmax "
        "logcumsumexp softmax ",
        Traits(),
    ),
)
