"""Factorisations, solutions and functions of matrices."""

from __future__ import annotations

from dataclasses import replace

from mindgap.graph.operators.operator_traits import Traits, family

#: PyTorch's notes on numerical accuracy: the libraries behind `torch.linalg` guarantee nothing for NaN or infinity.
_FINITE = Traits(undefined_if_not_finite="all")

LINEAR_ALGEBRA = family(
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
)
