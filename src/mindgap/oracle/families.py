"""Every family of bounds, imported so that its rules are registered."""

from typing import Final

from mindgap.oracle import (
    bounds_backward,
    bounds_fourier,
    bounds_matrices,
    bounds_norms,
    bounds_places,
    bounds_pointwise,
    bounds_sums,
    bounds_whole,
)

FAMILIES: Final = (
    bounds_pointwise,
    bounds_sums,
    bounds_fourier,
    bounds_matrices,
    bounds_norms,
    bounds_backward,
    bounds_places,
    bounds_whole,
)
