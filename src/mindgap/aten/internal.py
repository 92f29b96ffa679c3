"""Results of operators that no public function returns: what a kernel saves for its own backward pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: Operator packet -> result slots that no public function of PyTorch returns. A platform may fill them in its own way.
#: An operator whose results a documented function returns as they are (`aten.max_pool2d_with_indices`,
#: `aten.native_multi_head_attention`) is not here, nor is a running statistic, which a module keeps.
INTERNAL_RESULTS: Final[Mapping[str, tuple[int, ...]]] = {
    # Batch, layer, group and RMS normalisation: saved mean, saved inverse standard deviation, reserve.
    "native_batch_norm": (1, 2),
    "_native_batch_norm_legit": (1, 2),
    "_native_batch_norm_legit_no_training": (1, 2),
    "_native_batch_norm_legit_functional": (1, 2),
    "_batch_norm_with_update": (1, 2, 3),
    "_batch_norm_with_update_functional": (1, 2, 3),
    "_batch_norm_no_update": (1, 2, 3),
    "_batch_norm_impl_index": (1, 2, 3, 4),
    "cudnn_batch_norm": (1, 2, 3),
    "miopen_batch_norm": (1, 2),
    "native_layer_norm": (1, 2),
    "native_group_norm": (1, 2),
    "_fused_rms_norm": (1,),
    "_weight_norm_interface": (1,),
    # Bags of embeddings: offset2bag, bag_size, max_indices.
    "embedding_bag": (1, 2, 3),
    "_embedding_bag": (1, 2, 3),
    "_embedding_bag_forward_only": (1, 2, 3),
    # Losses: total weight, log α of the alignment, which classes are targets, buffer.
    "nll_loss_forward": (1,),
    "nll_loss2d_forward": (1,),
    "_ctc_loss": (1,),
    "_cudnn_ctc_loss": (1,),
    "miopen_ctc_loss": (1,),
    "multilabel_margin_loss_forward": (1,),
    "log_sigmoid_forward": (1,),
    # Attention: logarithm of the sum of exponentials, sequence lengths, random state, debug mask, weights.
    "_scaled_dot_product_attention_math": (1,),
    "_scaled_dot_product_attention_math_for_mps": (1,),
    "_scaled_dot_product_flash_attention_for_cpu": (1,),
    "_scaled_dot_product_flash_attention": (1, 2, 3, 4, 5, 6, 7, 8),
    "_scaled_dot_product_cudnn_attention": (1, 2, 3, 4, 5, 6, 7, 8),
    "_scaled_dot_product_fused_attention_overrideable": (1, 2, 3, 4, 5, 6, 7, 8),
    "_scaled_dot_product_efficient_attention": (1, 2, 3),
    "_cudnn_attention_forward": (1, 2, 3, 4, 5, 6, 7, 8),
    "_flash_attention_forward": (1, 2, 3, 4),
    "_efficient_attention_forward": (1, 2, 3, 4, 5),
    # Recurrent cells and layers: workspace, reserve, packed weights.
    "_thnn_fused_lstm_cell": (2,),
    "_thnn_fused_gru_cell": (1,),
    "mkldnn_rnn_layer": (3,),
    "_cudnn_rnn": (3, 4),
    "miopen_rnn": (3, 4),
    "_lstm_mps": (3, 4, 5),
    # Masks and noise of dropout, RReLU and fake quantisation.
    "native_dropout": (1,),
    "_fused_dropout": (1,),
    "rrelu_with_noise_functional": (1,),
    "fake_quantize_per_tensor_affine_cachemask": (1,),
    "fake_quantize_per_channel_affine_cachemask": (1,),
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": (1,),
    "_fused_moving_avg_obs_fq_helper": (1,),
    "_fused_moving_avg_obs_fq_helper_functional": (1,),
    # Factorisations that a determinant or a solution leaves behind.
    "_linalg_det": (1, 2),
    "_linalg_slogdet": (2, 3),
    "_linalg_solve_ex": (1, 2),
}

#: Of these, slots whose content each kernel chooses, so that two right ones differ: which bag a row is in (some leave
#: it empty), a factorisation whose rows were swapped where two pivots tie.
KERNELS_CHOICE: Final[Mapping[str, tuple[int, ...]]] = {
    "embedding_bag": (1,),
    "_embedding_bag": (1,),
    "_embedding_bag_forward_only": (1,),
    "_linalg_solve_ex": (1, 2),
    "_linalg_det": (1, 2),
    "_linalg_slogdet": (2, 3),
}
