"""Views, copies and arrangement: results are elements of the operands, or zeros."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

MOVEMENT = family(
    "movement",
    (
        "_reshape_alias adjoint alias_copy atleast_1d atleast_2d atleast_3d broadcast_to cat clone "
        "column_stack concat concatenate contiguous diagonal diagonal_copy dsplit dstack expand_copy hsplit "
        "hstack lift_fresh lift_fresh_copy mH mT matrix_H moveaxis movedim narrow_copy permute_copy ravel "
        "reshape_as resolve_conj resolve_neg select_copy slice_copy split_copy split_with_sizes_copy "
        "squeeze_copy stack swapaxes swapdims t_copy tensor_split transpose_copy unbind_copy unsafe_chunk "
        "unsafe_split unsqueeze_copy view_copy vsplit vstack",
        Traits(moves_data=True, hands_on=True),
    ),
    (
        "_unsafe_view alias chunk detach expand expand_as flatten narrow numpy_T permute reshape select slice "
        "split split_with_sizes squeeze t transpose unbind unflatten unsqueeze view view_as",
        Traits(moves_data=True, looks_up=True, hands_on=True),
    ),
    (
        "block_diag broadcast_tensors channel_shuffle diag diag_embed diagflat diagonal_backward fft_fftshift "
        "fft_ifftshift flip fliplr flipud im2col meshgrid pixel_shuffle pixel_unshuffle reflection_pad1d "
        "reflection_pad2d reflection_pad3d repeat repeat_interleave replication_pad1d replication_pad2d "
        "replication_pad3d roll rot90 select_backward slice_backward tile unfold unfold_copy",
        Traits(moves_data=True),
    ),
    (
        "_chunk_cat _conj _conj_physical _pad_circular as_strided as_strided_copy cartesian_prod col2im "
        "combinations conj conj_physical constant_pad_nd imag linalg_diagonal pad real "
        "reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward "
        "replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward resize resize_as "
        "unfold_backward view_as_complex view_as_real",
        Traits(),
    ),
)
