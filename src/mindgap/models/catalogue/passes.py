"""Names the passes of a program that can be captured."""

from __future__ import annotations

from typing import Final, Literal

#: `forward`: its calls. `backward`: its kernels with gradients. `sgd`, `adamw`: a whole training step.
Pass = Literal["forward", "backward", "sgd", "adamw"]
PASSES: Final[tuple[Pass, ...]] = ("forward", "backward", "sgd", "adamw")
