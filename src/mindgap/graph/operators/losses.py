"""Loss functions and their gradients."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

LOSSES = family(
    "losses",
    ("huber_loss kl_div mse_loss smooth_l1_loss", Traits(intermediates="squares", rounds_each_step=True)),
    (
        "binary_cross_entropy_with_logits cross_entropy_loss l1_loss nll_loss nll_loss_nd",
        Traits(intermediates="sums", rounds_each_step=True),
    ),
    ("_ctc_loss", Traits(internal_outputs=(1,), free_outputs=(1,))),
    (
        "_cudnn_ctc_loss miopen_ctc_loss multilabel_margin_loss_forward nll_loss2d_forward nll_loss_forward",
        Traits(internal_outputs=(1,)),
    ),
    (
        "_linear_cross_entropy_batch_chunked _linear_cross_entropy_batch_chunked_no_reduction "
        "binary_cross_entropy binary_cross_entropy_backward cosine_embedding_loss hinge_embedding_loss "
        "huber_loss_backward margin_ranking_loss mse_loss_backward multi_margin_loss "
        "multi_margin_loss_backward multilabel_margin_loss multilabel_margin_loss_backward nll_loss2d "
        "nll_loss2d_backward nll_loss_backward poisson_nll_loss smooth_l1_loss_backward soft_margin_loss "
        "soft_margin_loss_backward triplet_margin_loss",
        Traits(),
    ),
)
