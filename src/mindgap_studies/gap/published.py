"""Holds published figures for the same questions. Pages show them beside ours, never mixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Published:
    """A table from a paper. `note`: how its counts differ from ours."""

    source: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    note: str = ""


_GAP: Final = "Mind the Gap, arXiv 2511.11601 (PyTorch 2.7.1; 100,000 variants of up to 1,000 nodes)"
_ILLUSION: Final = "The Grand Illusion, arXiv 2309.07181 (about 65 functions of each framework)"
_DEVIATIONS: Final = "Causes and Effects of Unanticipated Numerical Deviations (75 platforms, CNN inference)"
_DEVICES: Final = ("NVIDIA H200", "AMD MI300X", "Intel Max 1100", "Huawei Ascend 910B", "Apple M4 Pro")


def _per_device(*figures: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
    return tuple(zip(_DEVICES, *figures, strict=True))


#: By the name of our table.
PUBLISHED: Final[Mapping[str, Published]] = {
    "failures": Published(
        _GAP,
        ("what", "share of executions or models"),
        (
            ("failures on the baseline: index out of bounds, shapes that do not fit", "about 2.5 %"),
            ("models that fail for an unsupported operator on Apple (47 operators seen)", "over 10 %"),
            ("models that fail for an unsupported operator on Huawei (34 operators seen)", "over 10 %"),
        ),
    ),
    "consistency": Published(
        f"{_GAP}, Fig. 4",
        ("platform", "discrepant, of 87,840 models that ran everywhere"),
        _per_device(("the baseline", 0.002, 0.004, 0.051, 0.141)),
        "By one tolerance for everything (atol 5e-4, rtol 1e-4): like our `share_beyond_paper`, base `everywhere`.",
    ),
    "compiled": Published(
        f"{_GAP}, Fig. 5",
        ("what", "figure"),
        (
            ("compiled differs from eager on Apple and Huawei", "about 1.1 % of models"),
            ("what remains on NVIDIA and AMD", "mostly NaN for infinities, or the reverse"),
        ),
    ),
    "compile_failures": Published(
        f"{_GAP}, Table I",
        ("platform", "Dynamo: failed, of 77,291 consistent in eager", "stalled", "unsupported operator",
         "heap corruption", "code generation", "JIT: stalled", "JIT: heap corruption"),
        _per_device(
            (29, 28, 87, 1529, 1722), (0, 0, 0, 16, 0), (22, 22, 79, 1484, 1719), (4, 3, 8, 45, 3), (3, 3, 0, 0, 0),
            (9, 9, 3, 12, 7), (2, 3, 7, 27, 3),
        ),
        "Published parts need not add up to the published whole: they are given as printed.",
    ),
    "coverage": Published(
        _GAP,
        ("platform", "operators that the device implements"),
        (*_per_device((488, 488, 449, 407, 332)), ("in variants that ran, of NVIDIA's 488", 397)),
    ),
    "findings": Published(
        _GAP,
        ("platform", "issues found"),
        (*_per_device((1, 4, 3, 13, 11)), ("PyTorch itself", 7)),
        "The abstract says 40 issues, the lists add up to 32.",
    ),
    "slowdown": Published(
        _ILLUSION,
        ("what", "share of functions"),
        (("PyTorch, more than 10 times slower from GPU to TPU", 0.814), ("JAX, faster on TPU than on GPU", 0.918)),
        "Without warm-up: the first call's compilation is in their mean, and not in our ratio.",
    ),
    "classes": Published(
        _DEVIATIONS,
        ("what", "figure"),
        (("distinct results of one model on one input, over 75 platforms", "up to 26"),),
    ),
}  # fmt: skip
