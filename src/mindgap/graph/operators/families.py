"""The families of operators, each with the traits of its members.

A family lists packets, or packets with an overload, in groups of equal traits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mindgap.graph.operators.operator_traits import Family, Traits, family

#: PyTorch's notes on numerical accuracy: the libraries behind `torch.linalg` guarantee nothing for NaN or infinity.
_FINITE: Final = Traits(undefined_if_not_finite="all")

FAMILIES: Final[tuple[Family, ...]] = (
    # Activation functions and their gradients.
    family(
        "activations",
        ("sigmoid tanh", Traits(complex_intermediates="exponential")),
        ("gelu glu mish silu softplus", Traits(intermediates="elementwise")),
        ("log_sigmoid_forward", Traits(internal_outputs=(1,))),
        ("relu", Traits(moves_data=True, non_smooth="bent")),
        ("hardswish", Traits(non_smooth="bent", intermediates="elementwise")),
        ("hardsigmoid hardtanh relu6 softshrink", Traits(non_smooth="bent")),
        (
            "hardshrink_backward hardsigmoid_backward hardswish_backward hardtanh_backward leaky_relu_backward "
            "softshrink_backward threshold_backward",
            Traits(non_smooth="jumps", jumps_at=1),
        ),
        ("hardshrink threshold", Traits(non_smooth="jumps")),
        (
            "_prelu_kernel _prelu_kernel_backward celu elu elu_backward gelu_backward glu_backward leaky_relu "
            "log_sigmoid log_sigmoid_backward logit logit_backward mish_backward prelu selu sigmoid_backward "
            "silu_backward softplus_backward special_expit tanh_backward",
            Traits(),
        ),
    ),
    # Elementwise arithmetic and elementary functions.
    family(
        "arithmetic",
        ("cos exp expm1 sin tan", Traits(complex_intermediates="exponential")),
        (
            "acos acosh angle arccos arcsin arctan asin asinh atan atanh log rsqrt sqrt square",
            Traits(complex_intermediates="magnitude"),
        ),
        ("cosh sinh", Traits(intermediates="elementwise", complex_intermediates="exponential")),
        ("logaddexp logaddexp2", Traits(intermediates="elementwise")),
        ("fmax fmin maximum minimum", Traits(moves_data=True, non_smooth="bent", promotes=True)),
        ("abs absolute neg negative positive", Traits(moves_data=True)),
        ("clamp clamp_max clamp_min clip", Traits(non_smooth="bent")),
        ("pow", Traits(promotes=True, complex_intermediates="exponential")),
        ("mul multiply", Traits(promotes=True, complex_intermediates="magnitude")),
        ("lerp", Traits(promotes=True, intermediates="elementwise")),
        ("addcdiv addcmul", Traits(promotes=True, intermediates="elementwise", complex_intermediates="magnitude")),
        ("add rsub sub subtract", Traits(promotes=True, intermediates="scaled operand")),
        ("arctan2 atan2 hypot", Traits(promotes=True)),
        (
            "deg2rad diff exp2 float_power gradient log10 log1p log2 rad2deg",
            Traits(),
        ),
    ),
    # Softmax and attention.
    family(
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
            "logcumsumexp softmax",
            Traits(),
        ),
    ),
    # Conversions between dtypes.
    family(
        "casts",
        ("copy", Traits(casts=True)),
        ("_to_copy to type_as", Traits(hands_on=True, casts=True)),
        ("view.dtype", Traits(hands_on=True, depends_on_dtype=True)),
        ("to_dense", Traits()),
    ),
    # Comparisons and tests of elements: results are booleans.
    family(
        "comparisons",
        (
            "eq ge greater greater_equal gt le less less_equal lt ne not_equal",
            Traits(decides="comparison", promotes=True),
        ),
        ("heaviside is_same_size isclose isfinite isin isinf isnan isneginf isposinf isreal signbit", Traits()),
    ),
    # Sums of products along a dimension: matrix products, convolutions, outer products.
    family(
        "contractions",
        (
            "_addmm_activation _grouped_mm _scaled_mm _scaled_mm_v2 _trilinear addbmm addmm addmv baddbmm bilinear "
            "bmm dot einsum inner linalg_multi_dot linalg_vecdot linear linear_backward matmul mm mv tensordot vdot",
            Traits(contracts=True),
        ),
        # Winograd's algorithm brings NaN to all elements of a tile; an infinite weight meets padding, or does not.
        (
            "_convolution _slow_conv2d_backward _slow_conv2d_forward conv1d conv2d conv3d conv_tbc conv_transpose1d "
            "conv_transpose2d conv_transpose3d convolution convolution_backward",
            Traits(contracts=True, undefined_if_not_finite="not NaN"),
        ),
        ("cumulative_trapezoid trapezoid trapz", Traits(intermediates="squares", rounds_each_step=True)),
        ("addr cross kron linalg_cross outer", Traits()),
    ),
    # Tensors made from numbers: constants, ranges, uninitialised memory.
    family(
        "creation",
        (
            "empty empty_like empty_permuted empty_strided new_empty new_empty_strided",
            Traits(returns_uninitialised=True),
        ),
        (
            "_efficientzerotensor arange complex eye fill full full_like linspace logspace new_full new_ones "
            "new_zeros ones ones_like polar range scalar_tensor tril_indices triu_indices zero zeros zeros_like",
            Traits(),
        ),
    ),
    # Distances between vectors, and their gradients.
    family(
        "distances",
        ("_cdist_forward _euclidean_dist cdist", Traits(contracts=True, intermediates="squares")),
        ("_cdist_backward", Traits(contracts=True)),
        ("cosine_similarity", Traits(intermediates="squares", rounds_each_step=True)),
        ("pairwise_distance", Traits(intermediates="squares")),
        ("_pdist_backward _pdist_forward dist pdist", Traits()),
    ),
    # Quotients and remainders.
    family(
        "division",
        ("reciprocal", Traits(complex_intermediates="magnitude")),
        (
            "floor_divide fmod remainder",
            Traits(promotes=True, undefined_where="integer division by zero"),
        ),
        (
            "div divide true_divide",
            Traits(promotes=True, undefined_where="integer division by zero", complex_intermediates="magnitude"),
        ),
    ),
    # Fourier transforms.
    # Every element of a line depends on every other, and each algorithm orders the sums otherwise.
    family(
        "fourier",
        (
            "_fft_c2c _fft_c2r _fft_r2c fft_fft fft_fft2 fft_fftn fft_ifft fft_ifft2 fft_ifftn fft_irfft fft_irfft2 "
            "fft_rfft fft_rfft2 istft stft",
            Traits(intermediates="sums", undefined_if_not_finite="all"),
        ),
        (
            "fft_hfft fft_hfft2 fft_hfftn fft_ihfft fft_ihfft2 fft_ihfftn fft_irfftn fft_rfftn",
            Traits(undefined_if_not_finite="all"),
        ),
    ),
    # Reading and writing elements at indices or where a mask holds.
    family(
        "indexing",
        ("index_reduce scatter_reduce", Traits(intermediates="sums", rounds_each_step=True)),
        ("index_add scatter_add", Traits(intermediates="sums")),
        (
            "_embedding_bag _embedding_bag_forward_only embedding_bag",
            Traits(internal_outputs=(1, 2, 3), kernel_chosen_outputs=(1,)),
        ),
        ("where", Traits(moves_data=True, fills=True)),
        ("embedding gather index index_select", Traits(moves_data=True, looks_up=True)),
        (
            "_unsafe_index diagonal_scatter masked_select select_scatter slice_scatter take take_along_dim tril triu",
            Traits(moves_data=True),
        ),
        ("_unsafe_index_put index_copy index_put put scatter", Traits(undefined_where="index written twice")),
        (
            "_embedding_bag_backward _embedding_bag_dense_backward _embedding_bag_per_sample_weights_backward "
            "_unsafe_masked_index _unsafe_masked_index_put_accumulate as_strided_scatter embedding_dense_backward "
            "index_fill masked_fill masked_scatter masked_scatter_backward one_hot",
            Traits(),
        ),
    ),
    # Bitwise and logical operators, and arithmetic of whole numbers only.
    family(
        "integers",
        (
            "__lshift__ __rshift__ bitwise_left_shift bitwise_right_shift",
            Traits(undefined_where="shift past the width"),
        ),
        (
            "bitwise_and bitwise_not bitwise_or bitwise_xor gcd hash_tensor lcm logical_and logical_not logical_or "
            "logical_xor",
            Traits(),
        ),
    ),
    # Resampling of images and of sampling grids, and its gradients.
    family(
        "interpolation",
        (
            "_upsample_bicubic2d_aa grid_sampler grid_sampler_2d upsample_bicubic2d",
            Traits(intermediates="signed weights"),
        ),
        (
            "_upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d upsample_nearest1d "
            "upsample_nearest2d upsample_nearest3d",
            Traits(moves_data=True),
        ),
        (
            "_upsample_bicubic2d_aa_backward _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward "
            "_upsample_nearest_exact1d_backward _upsample_nearest_exact2d_backward _upsample_nearest_exact3d_backward "
            "grid_sampler_2d_backward grid_sampler_3d grid_sampler_3d_backward upsample_bicubic2d_backward "
            "upsample_bilinear2d upsample_bilinear2d_backward upsample_linear1d upsample_linear1d_backward "
            "upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward upsample_trilinear3d "
            "upsample_trilinear3d_backward",
            Traits(),
        ),
    ),
    # Factorisations, solutions and functions of matrices.
    family(
        "linear_algebra",
        ("_linalg_svd linalg_svd svd", replace(_FINITE, free_outputs=(0, 2))),
        ("_linalg_eigh linalg_eig linalg_eigh", replace(_FINITE, free_outputs=(1,))),
        ("_linalg_det _linalg_solve_ex", replace(_FINITE, internal_outputs=(1, 2), kernel_chosen_outputs=(1, 2))),
        ("_linalg_slogdet", replace(_FINITE, internal_outputs=(2, 3), kernel_chosen_outputs=(2, 3))),
        (
            "_linalg_check_errors _lu_with_info cholesky cholesky_inverse cholesky_solve geqrf linalg_cholesky "
            "linalg_cholesky_ex linalg_cond linalg_det linalg_eigvals linalg_eigvalsh linalg_householder_product "
            "linalg_inv linalg_inv_ex linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve linalg_lu "
            "linalg_lu_factor linalg_lu_factor_ex linalg_lu_solve linalg_matrix_exp linalg_matrix_power "
            "linalg_matrix_rank linalg_matrix_sqrth linalg_pinv linalg_polar linalg_qr linalg_slogdet linalg_solve "
            "linalg_solve_ex linalg_solve_triangular linalg_svdvals linalg_tensorinv linalg_tensorsolve logdet "
            "lu_solve matrix_exp ormqr pinverse qr triangular_solve",
            _FINITE,
        ),
        ("linalg_norm linalg_vander lu_unpack", Traits()),
    ),
    # Loss functions and their gradients.
    family(
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
            "huber_loss_backward margin_ranking_loss mse_loss_backward multi_margin_loss multi_margin_loss_backward "
            "multilabel_margin_loss multilabel_margin_loss_backward nll_loss2d nll_loss2d_backward nll_loss_backward "
            "poisson_nll_loss smooth_l1_loss_backward soft_margin_loss soft_margin_loss_backward triplet_margin_loss",
            Traits(),
        ),
    ),
    # Views, copies and arrangement: results are elements of the operands, or zeros.
    family(
        "movement",
        (
            "_reshape_alias adjoint alias_copy atleast_1d atleast_2d atleast_3d broadcast_to cat clone column_stack "
            "concat concatenate contiguous diagonal diagonal_copy dsplit dstack expand_copy hsplit hstack lift_fresh "
            "lift_fresh_copy mH mT matrix_H moveaxis movedim narrow_copy permute_copy ravel reshape_as resolve_conj "
            "resolve_neg select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy stack swapaxes swapdims "
            "t_copy tensor_split transpose_copy unbind_copy unsafe_chunk unsafe_split unsqueeze_copy view_copy vsplit "
            "vstack",
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
            "combinations conj conj_physical constant_pad_nd imag linalg_diagonal pad real reflection_pad1d_backward "
            "reflection_pad2d_backward reflection_pad3d_backward replication_pad1d_backward "
            "replication_pad2d_backward replication_pad3d_backward resize resize_as unfold_backward view_as_complex "
            "view_as_real",
            Traits(),
        ),
    ),
    # Batch, layer, group, instance and RMS normalisation, and their gradients.
    family(
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
        (
            "batch_norm_backward native_batch_norm_backward native_group_norm_backward native_layer_norm_backward",
            Traits(),
        ),
    ),
    # Order statistics: maxima, sorting, ranks, unique elements, searches in sorted tensors.
    family(
        "ordering",
        ("argmax argmin", Traits(decides="order", first_of_equals=True, reduces=True)),
        ("median mode nanmedian", Traits(decides="order", reduces=True)),
        ("argsort", Traits(decides="order")),
        ("cummax cummin sort topk", Traits(moves_data=True, decides="order")),
        ("kthvalue", Traits(moves_data=True, decides="order", reduces=True)),
        ("max min", Traits(moves_data=True, non_smooth="bent", decides="order", first_of_equals=True, reduces=True)),
        ("amax amin", Traits(moves_data=True, non_smooth="bent", reduces=True)),
        ("aminmax", Traits(moves_data=True, reduces=True)),
        ("msort", Traits(moves_data=True)),
        ("nanquantile quantile", Traits(reduces=True)),
        ("_unique2 bucketize nonzero nonzero_static searchsorted unique_consecutive", Traits()),
    ),
    # Pooling over windows, and its gradients.
    family(
        "pooling",
        (
            "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d "
            "max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices",
            Traits(moves_data=True, decides="pooling"),
        ),
        ("max_pool1d max_pool2d max_pool3d", Traits(moves_data=True)),
        (
            "_adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d _adaptive_avg_pool3d_backward "
            "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool2d_backward "
            "adaptive_max_pool3d_backward avg_pool1d avg_pool2d avg_pool2d_backward avg_pool3d avg_pool3d_backward "
            "fractional_max_pool2d_backward fractional_max_pool3d_backward max_pool2d_with_indices_backward "
            "max_pool3d_with_indices_backward max_unpool2d max_unpool3d",
            Traits(),
        ),
    ),
    # Simulated quantisation.
    family(
        "quantisation",
        (
            "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams _fused_moving_avg_obs_fq_helper "
            "_fused_moving_avg_obs_fq_helper_functional fake_quantize_per_channel_affine_cachemask "
            "fake_quantize_per_tensor_affine_cachemask",
            Traits(internal_outputs=(1,)),
        ),
    ),
    # Random numbers, and operators that drop or scale elements at random.
    family(
        "random",
        ("_fused_dropout native_dropout rrelu_with_noise_functional", Traits(internal_outputs=(1,))),
        ("multinomial", Traits(random=True, free_outputs=(0,))),
        (
            "bernoulli cauchy exponential geometric log_normal normal poisson rand rand_like randint randint_like "
            "randn randn_like random randperm uniform",
            Traits(random=True),
        ),
        (
            "alpha_dropout dropout feature_alpha_dropout feature_dropout native_dropout_backward rrelu "
            "rrelu_with_noise rrelu_with_noise_backward",
            Traits(),
        ),
    ),
    # Recurrent cells and layers.
    family(
        "recurrent",
        ("gru gru_cell lstm lstm_cell rnn_relu rnn_tanh", Traits(contracts=True)),
        ("_thnn_fused_gru_cell", Traits(internal_outputs=(1,))),
        ("_thnn_fused_lstm_cell", Traits(internal_outputs=(2,))),
        ("_cudnn_rnn miopen_rnn", Traits(internal_outputs=(3, 4))),
        ("_lstm_mps", Traits(internal_outputs=(3, 4, 5))),
        ("mkldnn_rnn_layer", Traits(internal_outputs=(3,))),
        ("rnn_relu_cell rnn_tanh_cell", Traits()),
    ),
    # Reductions over dimensions and running sums.
    family(
        "reductions",
        ("cumprod", Traits(intermediates="products", complex_intermediates="magnitude")),
        ("segment_reduce", Traits(intermediates="sums")),
        ("prod", Traits(reduces=True, intermediates="products", complex_intermediates="exponential")),
        ("linalg_vector_norm norm std std_mean var var_mean", Traits(reduces=True, intermediates="squares")),
        (
            "all any count_nonzero frobenius_norm linalg_matrix_norm mean nanmean nansum nuclear_norm sum sum_to_size "
            "trace",
            Traits(reduces=True),
        ),
        ("_segment_reduce_backward bincount cumsum histc histogram histogramdd renorm", Traits()),
    ),
    # Rounding to whole numbers, sign, and access to the parts of a number.
    family(
        "rounding",
        ("nextafter", Traits(depends_on_dtype=True)),
        ("sgn", Traits(rounds_to_steps=True, complex_intermediates="magnitude")),
        ("ceil fix floor round sign trunc", Traits(rounds_to_steps=True)),
        ("copysign frac frexp ldexp nan_to_num", Traits()),
    ),
    # Special functions.
    family(
        "special",
        ("i0 sinc special_i1", Traits(intermediates="elementwise")),
        (
            "digamma erf erfc erfinv igamma igammac lgamma mvlgamma polygamma special_airy_ai special_bessel_j0 "
            "special_bessel_j1 special_bessel_y0 special_bessel_y1 special_chebyshev_polynomial_t "
            "special_chebyshev_polynomial_u special_chebyshev_polynomial_v special_chebyshev_polynomial_w "
            "special_entr special_erf special_erfcx special_hermite_polynomial_h special_hermite_polynomial_he "
            "special_i0e special_i1e special_laguerre_polynomial_l special_legendre_polynomial_p special_log_ndtr "
            "special_modified_bessel_i0 special_modified_bessel_i1 special_modified_bessel_k0 "
            "special_modified_bessel_k1 special_ndtr special_ndtri special_polygamma "
            "special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1 "
            "special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u "
            "special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w "
            "special_spherical_bessel_j0 special_xlog1py special_zeta xlogy",
            Traits(),
        ),
    ),
)
