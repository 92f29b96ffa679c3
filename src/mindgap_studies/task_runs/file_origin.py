"""Finds where two platforms part that run the same quantised file: its integers, made outputs, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from mindgap.graph import Array, MindgapError
from mindgap.own_path.user_program import UserProgram
from mindgap.platforms.name import PlatformName, parse

#: What runs the file on the other side: the runtime whose quantiser writes such files.
_REFERENCE: Final = "onnxruntime/cpu"


def file_origin(program: UserProgram, inputs: Sequence[Array], platform: PlatformName) -> tuple[str, str]:
    """Returns the node after which the two sides part, and a sentence on the difference there.

    Raises `MindgapError` where the file has no integers that can be made outputs, or a side does not run it.
    """
    ours, theirs = (program.probe(each, inputs) for each in (platform, parse(_REFERENCE)))
    if ours is None or theirs is None:
        raise MindgapError(f"{program.source.partition('?')[0]} has no quantised values that can be made outputs")
    for node, mine in ours[1].items():
        apart = np.abs(mine.astype(np.float64) - theirs[1][node].astype(np.float64))
        if apart.any():
            share = f"{np.count_nonzero(apart)} of {apart.size} elements are another step than {_REFERENCE}'s"
            return node, f"{share}, by up to {apart.max():g} steps; the file's integers were made outputs to see them"
    return "", f"no integer inside the file differs from {_REFERENCE}'s once they are made outputs"
