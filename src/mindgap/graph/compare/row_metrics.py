"""The metrics of one row: how far all outputs of a platform are from the reference's."""

from __future__ import annotations

from typing import Final

from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

#: Relative error from which results are others altogether. That of rounding to bfloat16 is a tenth of it.
_WHOLLY: Final = 0.05


class RowMetrics(TypedDict, total=False):
    """Metrics of the output that differs most, and counts over all outputs. A missing key was not measured.

    The fields of `mindgap.graph.compare.metrics.Metrics` belong to output number `worst_output`. `max_abs` and
    `max_rel` are the string `"inf"` where they are infinite. `reference` and `other` describe outputs of different
    dtype or shape. `relative_error`: root mean square of the difference over that of the reference. `error_ratio`:
    error of the platform over error of the reference, both against float64. docs/metrics.md defines every corner.
    """

    n: int
    n_differing: int
    max_abs: float | int | str | None
    max_rel: float | str | None
    max_ulp: int | None
    remaining_precision: int | None
    cosine: float | None
    mad: float | str | None
    nan_mismatch: int
    inf_mismatch: int
    signed_zero_mismatch: int
    top1_flips: int | None
    top5_flips: int | None
    reference: str
    other: str
    worst_output: int | None
    outputs_differing: int
    outputs: int
    relative_error: float | None
    error_ratio: float | None


# Reports of later versions may hold more.
RowMetrics.__pydantic_config__ = {"extra": "allow"}  # pyright: ignore[reportAttributeAccessIssue] # pydantic's name


def changed_wholly(metrics: RowMetrics) -> bool:
    """Whether results are others altogether, though each may be right: other positions or labels, NaN, infinity or zero
    for a number, or a relative error above 0.05."""
    classes = (metrics.get("nan_mismatch") or 0) + (metrics.get("inf_mismatch") or 0)
    relative = metrics.get("relative_error")
    far = relative > _WHOLLY if relative is not None else bool(metrics.get("n_differing"))
    return bool(classes or metrics.get("top1_flips") or far)
