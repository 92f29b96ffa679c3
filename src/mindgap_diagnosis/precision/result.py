"""The answer of `mindgap precision`, and the bound that it must meet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mindgap.graph import Array, MindgapError


@dataclass(frozen=True, slots=True)
class Bound:
    """What the outputs must meet. `flips`: at most so many changed decisions; None: `error`, the largest difference in
    an output as a share of its largest magnitude."""

    error: float = 1e-2
    flips: int | None = None

    @property
    def limit(self) -> float:
        return self.error if self.flips is None else float(self.flips)

    def measured(self, exact: Sequence[Array], given: Sequence[Array]) -> float:
        """Measures outputs (numpy, in the graph's order) against those in float64. Infinite for NaN or infinity where
        float64 has a number."""
        pairs = list(zip(exact, given, strict=True))
        if self.flips is not None:
            return float(sum(_flips(a, b) for a, b in pairs))
        return max((_error(a, b) for a, b in pairs if a.dtype.kind in "fc"), default=0.0)

    def check(self, exact: Sequence[Array]) -> None:
        """Raises `MindgapError` where no output can be measured."""
        if self.flips is None and not any(a.dtype.kind in "fc" and a.size for a in exact):
            raise MindgapError("no output is a float, so there is no error to measure: --flips 0 counts decisions")


def _error(exact: Array, given: Array) -> float:
    wide = given.astype(exact.dtype)
    here = np.isfinite(exact)
    if not here.any():
        return 0.0
    if not np.isfinite(wide[here]).all():
        return math.inf
    return float(np.abs(wide[here] - exact[here]).max() / (np.abs(exact[here]).max() or 1.0))


def _flips(exact: Array, given: Array) -> int:
    """Changed decisions: rows of the last dimension whose largest element is another; elements of other outputs."""
    if exact.dtype.kind not in "f":
        return int((exact != given).sum())
    if exact.ndim == 0 or exact.shape[-1] < 2:
        return 0
    lost = ~np.isfinite(given.astype(np.float64)).all(-1) & np.isfinite(exact).all(-1)
    return int(((exact.argmax(-1) != given.argmax(-1)) | lost).sum())


@dataclass(frozen=True, slots=True)
class KeptOperator:
    """One operator that stays in float32. `name`: its module, or its node in the ONNX file. `line`: of the program.

    `given_back`: the measured error without it; None where it was not given back: the platform has no kernel for it
    (`refused`), or runs did not suffice.
    """

    name: str
    line: str
    kind: str
    given_back: float | None
    refused: bool = False


@dataclass(frozen=True)
class Precision:
    """What must stay in float32 for the outputs of one model to meet a bound on a platform.

    `to`: the format of the others. `measure`: `error` (the largest difference from float64, as a share of an output's
    largest magnitude) or `flips` (changed decisions). `operators`: how many there are. `carriers`: names of nodes
    that only move data and lie between kept ones. `before`, `after`, `all_float32`: measured with none, with these,
    and with all in float32 (None: not measured). `runs`: of the platform. `minimal`: each was given back alone.
    `time_share`: of the model's time in float32, by eager PyTorch on this processor, in `kept`; None where PyTorch does
    not run the graph.
    `lists`: the list as other tools take it, by tool. `notes`: what a reader must know.
    """

    model: str
    platform: str
    to: str
    measure: Literal["error", "flips"]
    bound: float
    operators: int
    kept: tuple[KeptOperator, ...]
    carriers: tuple[str, ...]
    before: float
    after: float
    all_float32: float | None
    runs: int
    minimal: bool
    lists: Mapping[str, str]
    notes: tuple[str, ...] = ()
    saved: str = ""
    saved_error: float | None = None
    time_share: float | None = None
