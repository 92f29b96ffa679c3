"""Images of scikit-learn's digits at the sizes of the paper's inputs."""

from __future__ import annotations

from typing import Final

import numpy as np

from mindgap.graph import Array

#: Brightness goes from 0 to 16.
_BRIGHTEST: Final = 16


def enlarged(images: Array, size: int) -> Array:
    """Returns images [N, 8, 8] of integers 0 … 16 as float32 [N, 3, size, size] in [0, 1].

    Each pixel is repeated size / 8 times and each value is n / 16, so that every machine has the same bits.
    """
    if size % images.shape[-1]:
        raise ValueError(f"a size of {size} is no multiple of {images.shape[-1]}")
    times = size // images.shape[-1]
    large = (images.astype(np.float32) / _BRIGHTEST).repeat(times, 1).repeat(times, 2)
    return np.ascontiguousarray(np.broadcast_to(large[:, None], (len(images), 3, size, size)))
