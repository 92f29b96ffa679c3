"""Converts a report to JSON and back."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from mindgap.graph import MindgapError
from mindgap.graph.compare.culprit import culprit_json
from mindgap.graph.compare.verdict import Fault
from mindgap.results.rows import Report, Row

#: Raised when a field changes its meaning; a new field alone leaves it as it is.
SCHEMA: Final = 1
_NOT_FINITE: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def encode_report(report: Report) -> str:
    """The report with its totals and equivalence classes, as one JSON object (indented, strict)."""
    data = dataclasses.asdict(dataclasses.replace(report, rows=()))
    data["rows"] = [row_json(row) for row in report.rows]
    for row, plain in zip(report.rows, data["rows"], strict=True):
        plain["word"] = row.word
        plain["finding"] = row.finding
        plain["faults"] = [_fault_json(each) for each in row.independent_faults]
        plain["outputs"] = [{"index": index, "verdict": word} for index, word in enumerate(row.outputs)]
    for model in data["models"]:
        model["classes"] = report.classes(model["name"])
    head = {"schema": SCHEMA, "mindgap": data.pop("version")}
    tail = {"totals": dataclasses.asdict(report.totals), "nothing": report.nothing}
    return json.dumps(_strict({**head, **data, **tail}), indent=1, allow_nan=False, ensure_ascii=False)


def row_json(row: Row) -> dict[str, Any]:
    """Returns the fields of a row as `decode_report` reads them; numbers of NumPy stay as they are."""
    return dataclasses.asdict(row) | {
        "culprit": row.culprit and culprit_json(row.culprit), "faults": [_fault_json(each) for each in row.faults],
    }  # fmt: skip


def _fault_json(fault: Fault) -> dict[str, Any]:
    return dataclasses.asdict(fault) | {"culprit": fault.culprit and culprit_json(fault.culprit)}


def decode_report(text: str, where: str = "the report") -> Report:
    """The inverse of `encode_report`. Raises `MindgapError` naming `where` and the first wrong field."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise MindgapError(f"{where} is not JSON ({error}); expected what `mindgap diff --json` prints") from None
    if not isinstance(data, dict) or "schema" not in data or "rows" not in data:
        raise MindgapError(f"{where} is not a report; expected what `mindgap diff --json` prints")
    fields: dict[str, Any] = _loose(data)
    if fields["schema"] != SCHEMA:
        raise MindgapError(f"{where} has schema {fields['schema']!r}; this mindgap reads {SCHEMA}: make it again")
    fields["version"] = fields.get("mindgap", "")
    _undo_additions(fields["rows"])
    try:
        return _REPORTS.validate_python(fields)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise MindgapError(f"{where} is damaged at {field}: {first['msg']}") from None


def _undo_additions(rows: Any) -> None:
    """Takes verdicts out of metrics, and the fault that a row has of itself away where no judge found any."""
    for row in rows if isinstance(rows, list) else ():  # pyright: ignore[reportUnknownVariableType] # any JSON
        if not isinstance(row, dict):
            continue
        metrics: Any = row.get("metrics")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] # any JSON
        # Earlier versions wrote each output's verdict among the metrics.
        if isinstance(metrics, dict) and "verdicts" in metrics:
            row["verdicts"] = metrics.pop("verdicts")  # pyright: ignore[reportUnknownMemberType] # any JSON
        timings: Any = row.get("timings")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] # any JSON
        judged = isinstance(timings, dict) and "judge" in timings
        if not judged and not row.get("own_path"):  # pyright: ignore[reportUnknownMemberType] # any JSON
            row.pop("faults", None)  # pyright: ignore[reportUnknownMemberType] # any JSON


def _strict(value: Any) -> Any:
    """Plain JSON values: numpy scalars unwrapped, what is not finite spelled out."""
    if isinstance(value, dict):
        return {str(key): _strict(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] # any JSON
    if isinstance(value, (list, tuple)):
        return [_strict(item) for item in value]  # pyright: ignore[reportUnknownVariableType] # any JSON
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else ("inf" if value > 0 else "-inf")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)


def _loose(value: Any, key: str = "") -> Any:
    """Numbers again where `_strict` spelled them out: only inside metrics, the one place that holds any."""
    if isinstance(value, dict):
        inside = key == "metrics"
        return {
            k: _NOT_FINITE.get(v, v) if inside and isinstance(v, str) else _loose(v, "metrics" if inside else k)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] # any JSON
            for k, v in value.items()  # pyright: ignore[reportUnknownVariableType] # any JSON
        }
    if isinstance(value, list):
        return [_loose(item, key) for item in value]  # pyright: ignore[reportUnknownVariableType] # any JSON
    return value


_REPORTS: Final = TypeAdapter(Report)
