"""Trained weights that are bit for bit the same on every machine, from small files.

Training gives other bits on each machine, so its result is kept. A ResNet-18 has 45 MB of weights; its file has 0.2 MB:

- The weights of convolutions and dense layers are the initial ones plus a product of two thin matrices of 8-bit
  integers, the only part of them that training changed.
- Everything else (normalisation, biases, the last layer) is whole, as 16-bit integers with one scale per tensor.

`expand` makes weights of a file by integer arithmetic and single float64 operations, each rounded as IEEE 754 says.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from mindgap.graph import Array

FOLDER: Final = Path(__file__).parent / "trained"
#: Suffixes of a file's entries after a tensor's name. `scale` holds one float64.
LEFT, RIGHT, WHOLE, SCALE = ".left", ".right", ".whole", ".scale"


def read(path: Path) -> dict[str, Array]:
    with np.load(path, allow_pickle=False) as entries:
        return {name: entries[name] for name in entries.files}


def expand(initial: Mapping[str, Array], entries: Mapping[str, Array]) -> dict[str, Array]:
    """Returns every trained tensor by name, as float32. `initial`: the tensors that training began with."""
    found: dict[str, Array] = {}
    for key in entries:
        if key.endswith(WHOLE):
            name = key.removesuffix(WHOLE)
            found[name] = (entries[key].astype(np.float64) * float(entries[name + SCALE])).astype(np.float32)
        elif key.endswith(LEFT):
            name = key.removesuffix(LEFT)
            left, right = entries[key].astype(np.int64), entries[name + RIGHT].astype(np.int64)
            change = (left @ right).astype(np.float64) * float(entries[name + SCALE])
            found[name] = (initial[name].astype(np.float64) + change.reshape(initial[name].shape)).astype(np.float32)
    return found
