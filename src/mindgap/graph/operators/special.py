"""Special functions."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

SPECIAL = family(
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
)
