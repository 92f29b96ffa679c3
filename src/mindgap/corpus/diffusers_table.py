"""What rules cannot guess about diffusers' networks: sizes and inputs, by class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mindgap.corpus.diffusers_inputs import Case

#: Networks made of several others: the argument that takes them, their class, how many.
PARTS: Final[Mapping[str, tuple[str, str, int]]] = {
    "MultiAdapter": ("adapters", "T2IAdapter", 2),
    "FluxMultiControlNetModel": ("controlnets", "FluxControlNetModel", 2),
    "HunyuanDiT2DMultiControlNetModel": ("controlnets", "HunyuanDiT2DControlNetModel", 2),
    "MultiControlNetModel": ("controlnets", "ControlNetModel", 2),
    "MultiControlNetUnionModel": ("controlnets", "ControlNetUnionModel", 1),
    "QwenImageMultiControlNetModel": ("controlnets", "QwenImageControlNetModel", 1),
    "SD3MultiControlNetModel": ("controlnets", "SD3ControlNetModel", 2),
}

CASES: Final[Mapping[str, Case]] = {}
