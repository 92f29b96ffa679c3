"""Fourier transforms."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

#: Every element of a line depends on every other, and each algorithm orders the sums in its own way.
FOURIER = family(
    "fourier",
    (
        "_fft_c2c _fft_c2r _fft_r2c fft_fft fft_fft2 fft_fftn fft_ifft fft_ifft2 fft_ifftn fft_irfft "
        "fft_irfft2 fft_rfft fft_rfft2 istft stft",
        Traits(intermediates="sums", undefined_if_not_finite="all"),
    ),
    (
        "fft_hfft fft_hfft2 fft_hfftn fft_ihfft fft_ihfft2 fft_ihfftn fft_irfftn fft_rfftn",
        Traits(undefined_if_not_finite="all"),
    ),
)
