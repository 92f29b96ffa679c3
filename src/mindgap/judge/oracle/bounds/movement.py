"""Operators that move, choose or fill elements: exact."""

from __future__ import annotations

from mindgap.judge.oracle.bounds.rules import Bound, Site, exact, rule

# Those that move data or cast are exact by their traits; these choose, fill, or round to steps as well.
rule(
    "as_strided", "view_as_real", "view_as_complex", "real", "imag", "conj", "_conj", "as_strided_copy", "to_dense",
    "combinations", "cartesian_prod", "masked_fill", "masked_scatter", "index_copy", "index_fill",
    "as_strided_scatter", "fill", "zero", "constant_pad_nd", "pad", "_pad_circular", "max_unpool2d", "max_unpool3d",
    "unique_consecutive", "nonzero", "one_hot", "complex", "_conj_physical", "_unique2", "resize", "resize_as",
    "relu6", "clamp", "clip", "clamp_min", "clamp_max", "hardtanh", "sign", "floor", "ceil", "trunc", "fix",
    "argsort", "mode", "median", "nanmedian", "threshold", "nan_to_num", "copysign", "heaviside", "hardshrink",
    "signbit", "frac", "nextafter", "frexp", "zeros", "ones", "full", "empty", "zeros_like", "ones_like",
    "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty", "empty_strided",
    "new_empty_strided", "eye", "scalar_tensor", "empty_permuted", "dropout", "feature_dropout", "alpha_dropout",
    "native_dropout", "isnan", "isinf", "isfinite", "conj_physical", "_efficientzerotensor",
)(exact)  # fmt: skip


@rule("linalg_diagonal", "_unsafe_masked_index", "masked_scatter_backward", "_chunk_cat")
def moved(site: Site) -> list[Bound | None]:
    """Elements chosen or moved."""
    return exact(site)
