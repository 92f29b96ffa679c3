"""Derives facts from operators' names without a framework: which may write or alias, which arguments are sizes.

From the schemas of PyTorch 2.13 and its conventions (a packet that ends in `_` writes to its first
argument; an `out` overload writes to its keywords). In doubt the answer is the safe one: memory may
be shared, an argument is no size.

These sets are no traits (`mindgap.graph.operators`), for two reasons. They are part of the definition of a
structure digest (`structure.py`): a change gives every graph of a catalogue another digest. And they
only repeat what schemas hold, which rooms that import PyTorch read from there (`mindgap.aten.operators`).
"""

from __future__ import annotations

from typing import Final

from mindgap.graph.graph import Node, operands, refs

#: Namespaces whose operators write to nothing unless their name has it.
_PURE_NAMESPACES: Final = frozenset({"aten", "prims", "torchvision", "quantized_decomposed"})

#: Packets whose results may share an operand's memory, by schema or (dropout, to…) by what they return.
_ALIASING: Final = frozenset(
    {
        "_autocast_to_full_precision", "_autocast_to_reduced_precision", "_conj", "_fw_primal", "_grad_sum_to_size",
        "_indices", "_make_dual", "_neg_view", "_nested_get_values", "_nested_view_from_buffer",
        "_nested_view_from_jagged", "_reshape_alias", "_sparse_broadcast_to", "_unpack_dual", "_unsafe_view",
        "_values", "adjoint", "alias", "alpha_dropout", "as_strided", "atleast_1d", "atleast_2d", "atleast_3d",
        "broadcast_tensors", "broadcast_to", "ccol_indices", "chunk", "coalesce", "col_indices", "concat", "conj",
        "contiguous", "cpu", "crow_indices", "cuda", "detach", "diagonal", "dropout", "dsplit", "expand",
        "expand_as", "feature_alpha_dropout", "feature_dropout", "flatten", "hsplit", "imag", "indices", "lift",
        "lift_fresh", "linalg_diagonal", "mH", "mT", "matrix_H", "meshgrid", "moveaxis", "movedim", "narrow",
        "native_dropout", "numpy_T", "permute", "pin_memory", "positive", "ravel", "real", "requires_grad_",
        "reshape", "reshape_as", "resolve_conj", "resolve_neg", "row_indices", "select", "slice", "slice_inverse",
        "split", "split_with_sizes", "squeeze", "sum_to_size", "swapaxes", "swapdims", "t", "tensor_split", "to",
        "transpose", "type_as", "unbind", "unflatten", "unfold", "unsafe_chunk", "unsafe_split",
        "unsafe_split_with_sizes", "unsqueeze", "values", "view", "view_as", "view_as_complex", "view_as_real",
        "vsplit",
    }
)  # fmt: skip

#: Packets that write to running statistics while their sixth argument (training) is not False.
_UPDATING: Final = frozenset(
    {
        "_batch_norm_with_update", "_native_batch_norm_legit", "batch_norm", "cudnn_batch_norm", "instance_norm",
        "miopen_batch_norm", "native_batch_norm",
    }
)  # fmt: skip
#: Packets that write without an underscore in their name.
_WRITING: Final = frozenset(
    {
        "_batch_norm_with_update", "_cummax_helper", "_cummin_helper",
        "_flash_attention_forward_no_dropout_inplace", "_fused_moving_avg_obs_fq_helper",
        "fused_moving_avg_obs_fake_quant", "record_stream", "rrelu_with_noise", "set_data",
    }
)  # fmt: skip

#: Packets that take a size as their first argument, as their second, and as their third and fourth.
_SIZE_FIRST: Final = (
    "empty", "zeros", "ones", "full", "rand", "randn", "randint", "eye",
)  # fmt: skip
_SIZE_SECOND: Final = (
    "_grad_sum_to_size", "_reshape_alias", "_unsafe_view", "_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa",
    "broadcast_to", "expand", "expand_copy", "layer_norm", "native_layer_norm", "new_empty", "new_full", "new_ones",
    "new_zeros", "reshape", "resize_", "rms_norm", "split", "split_copy", "split_with_sizes",
    "split_with_sizes_copy", "sum_to_size", "unsafe_split", "unsafe_split_with_sizes", "upsample_bicubic2d",
    "upsample_bilinear2d", "upsample_linear1d", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
    "upsample_trilinear3d", "view", "view_copy",
)  # fmt: skip
_RANGE: Final = ("slice", "slice_copy", "narrow", "narrow_copy", "slice_scatter", "slice_inverse")
#: Packet -> positions of the arguments that are sizes of tensors, rather than choices of the model.
_SIZE_POSITIONS: Final[dict[str, tuple[int, ...]]] = {
    **dict.fromkeys(_SIZE_FIRST, (0,)),
    **dict.fromkeys(_SIZE_SECOND, (1,)),
    **dict.fromkeys(_RANGE, (2, 3)),
    "unflatten": (2,),
    "arange": (0, 1),
    # The row of padding is counted from either end of the vocabulary.
    "embedding": (2,),
    "embedding_dense_backward": (2, 3),
    "as_strided": (1, 2, 3),
    "as_strided_": (1, 2, 3),
    "as_strided_copy": (1, 2, 3),
    "as_strided_scatter": (2, 3, 4),
    "empty_strided": (0, 1),
    "new_empty_strided": (1, 2),
    "native_group_norm": (3, 4, 5),
    "linspace": (2,),
    "select_backward": (1,),
    "slice_backward": (1, 3, 4),
}
#: Keywords that are sizes wherever they stand.
SIZE_KEYWORDS: Final = frozenset(
    {"size", "shape", "normalized_shape", "split_size", "split_sizes", "output_size", "input_sizes", "length"}
)


def packet_of(node: Node) -> tuple[str, str]:
    """Returns namespace and packet of an operator: `aten`, `add_`."""
    namespace, packet, _ = node.op.split(".")
    return namespace, packet


def size_positions(node: Node) -> tuple[int, ...]:
    """Returns the positions of the arguments that are sizes."""
    return _SIZE_POSITIONS.get(packet_of(node)[1], ())


def may_alias(node: Node) -> bool:
    """Returns whether a result may share memory with an operand."""
    namespace, packet = packet_of(node)
    return namespace != "aten" or packet in _ALIASING or packet.endswith("_")


def written_operands(node: Node) -> tuple[int, ...]:
    """Returns the value numbers of the operands that the node may write to."""
    namespace, packet = packet_of(node)
    if namespace not in _PURE_NAMESPACES or packet in _WRITING:
        return operands(node)
    written: list[int] = []
    if (packet.endswith("_") and not packet.endswith("__")) or packet.startswith("__i"):
        written += refs(node.args[0]) if node.args else ()
        if packet.startswith("_"):
            return operands(node)  # _fused_adam_ and its like write to several of their lists.
    if packet in _UPDATING and not (len(node.args) > 5 and node.args[5] is False):
        written += [value for arg in node.args[3:5] for value in refs(arg)]
    if "out" in node.op.rsplit(".", 1)[1] or any(name == "out" for name, _ in node.kwargs):
        written += [value for _, arg in node.kwargs for value in refs(arg)]
    return tuple(written)
