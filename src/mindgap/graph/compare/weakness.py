"""The record of an operator that was judged on weaker evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: What is missing:
#: - `bound rule`: the error bound was measured on perturbed operands instead of derived.
#: - `float64 reference`: the expected value was computed in the operator's own dtype, perhaps by the kernel under
#:   judgement.
#: - `independent implementation`: blame was not checked against one.
#: - `replay`: replays with rounding noise do not cover a value.
#: - `independent fault`: whether the operator is a fault beside the others was not decided.
#: - `dtype policy`: whether a dtype policy of the platform explains every difference was not decided.
#: - `fallback check`: whether the operator ran on the platform's device or on the CPU was not to be seen.
Missing = Literal[
    "bound rule", "float64 reference", "independent implementation", "replay", "independent fault", "dtype policy",
    "fallback check",
]  # fmt: skip


@dataclass(frozen=True, slots=True, order=True)
class Weakness:
    """One operator that was judged on weaker evidence.

    `node`: index of the node in the graph that was judged (the functional one, where the oracle reports it), -1 for an
    operator that a node called. `op`: its overload, such as `aten.add.Tensor`. `reason`: one sentence, without a
    newline.
    """

    node: int
    op: str
    missing: Missing
    reason: str
