"""Results of operators that no public function returns: what a kernel saves for its own backward pass.

`internal_values` finds them in a graph, and says which of them a later operator computes with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mindgap.aten.operators import packet_of
from mindgap.graph import Graph, operands

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

#: Operators that hand an operand on, all of it or a part: what they give is as internal as what they take.
HANDS_ON: Final = frozenset(
    {
        "alias", "detach", "clone", "contiguous", "lift_fresh", "lift_fresh_copy", "to", "_to_copy", "view",
        "_unsafe_view", "reshape", "t", "numpy_T", "transpose", "permute", "movedim", "squeeze", "unsqueeze", "flatten",
        "unflatten", "expand", "slice", "select", "narrow", "split", "split_with_sizes", "tensor_split", "chunk",
        "unbind", "cat", "concat", "stack",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class InternalValues:
    """Values by number. `values`: all that are internal. `read`: those that some operator computes with.

    `hidden`: those that are never judged: nothing computes with them, or each kernel fills them as it likes.
    """

    values: frozenset[int] = frozenset()
    read: frozenset[int] = frozenset()
    hidden: frozenset[int] = frozenset()


def internal_values(graph: Graph, asked: bool = False) -> InternalValues:
    """The internal values of a functional graph: results that no public function returns, and parts of them that
    views and copies hand on. `asked`: none is taken for internal, since somebody wants to hear of them."""
    found: set[int] = set()
    chosen: set[int] = set()
    for index, node in enumerate(graph.nodes):
        packet, first = packet_of(node.op), graph.first_value[index]
        found |= {first + slot for slot in INTERNAL_RESULTS.get(packet, ()) if slot < len(node.outputs)}
        chosen |= {first + slot for slot in KERNELS_CHOICE.get(packet, ()) if slot < len(node.outputs)}
        taken = set(operands(node))
        if packet in HANDS_ON and taken and taken <= found:
            found |= set(range(first, first + len(node.outputs)))
    if asked or not found:
        return InternalValues(hidden=frozenset(chosen.difference(graph.outputs)))
    read: set[int] = set()
    for index in reversed(range(len(graph.nodes))):
        node, first = graph.nodes[index], graph.first_value[index]
        made = set(range(first, first + len(node.outputs)))
        hands_on = packet_of(node.op) in HANDS_ON and bool(made) and made <= found
        if not hands_on or made & read:
            read |= set(operands(node)) & found
    return InternalValues(frozenset(found), frozenset(read), frozenset((found - read) | chosen))
