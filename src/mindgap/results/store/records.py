"""Converts graphs, outcomes and metrics to rows of a store and back."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownParameterType=false
# (pyarrow has no types)

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, Final

import pyarrow as pa

from mindgap.graph import Graph, stored_keys, structure_digest
from mindgap.graph.compare.digest import Digested, Sketch
from mindgap.platforms.name import recorded
from mindgap.results.store.tables import METRICS
from mindgap.run.identity import digest_of
from mindgap.run.outcome import Outcome

_SKETCH: Final = tuple(field.name for field in fields(Sketch))
_NOT_FINITE: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def graph_row(graph: Graph, *, name: str = "", source: str = "", variant: str | None = None) -> dict[str, Any]:
    """Makes a row of `graphs`. `variant`: JSON that describes how the graph is made from others."""
    return {
        "graph": digest_of(graph),
        "structure": structure_digest(graph),
        "name": name,
        "source": source,
        "nodes": len(graph.nodes),
        "operators": sorted({node.op for node in graph.nodes}),
        "variant": variant,
        "tensors": stored_keys(graph),
    }


def outcome_row(run: str, model: str, outcome: Outcome) -> dict[str, Any]:
    """Makes a row of `outcomes`. Whole outputs and node values are not kept."""
    return {
        "run": run,
        "model": model,
        "graph": outcome.graph,
        "platform": outcome.platform,
        "fingerprint": outcome.fingerprint,
        "status": outcome.status,
        "op": outcome.op,
        "message": writable(outcome.message),
        "signature": writable(outcome.signature),
        "outputs": [_output_row(output) for output in outcome.outputs],
        "timings": dict(outcome.timings),
    }


def outcome_of(row: Mapping[str, Any]) -> Outcome:
    """Reads an outcome from a row of `Table.to_pylist` or `Store.rows`."""
    return Outcome(
        platform=recorded(row["platform"]),
        graph=row["graph"],
        status=row["status"],
        outputs=tuple(_output_of(output) for output in row["outputs"] or ()),
        message=row["message"] or "",
        signature=row["signature"] or "",
        op=row["op"],
        timings=dict(row["timings"] or {}),
        fingerprint=row["fingerprint"] or "",
    )


def metric_columns(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Converts metrics to typed columns of `verdicts`, and to `metrics`: JSON of all that columns do not hold exactly.

    A metric of another type than its column (an integer `max_abs`, an infinity as text, an explicit None) is in both
    if the column can hold its value: queries see it, and reading gives back the original.
    """
    columns: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, value in metrics.items():
        plain = value.item() if hasattr(value, "item") else value
        held = _as_column(plain, METRICS[name]) if name in METRICS else None
        columns |= {} if held is None else {name: held}
        if held is None or type(held) is not type(plain):
            rest[name] = _strict_json(plain)
    columns["metrics"] = json.dumps(rest, sort_keys=True, default=str) if rest else None
    return columns


def metrics_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """Reads metrics from the columns; names in the order of the columns, then the others."""
    metrics = {name: row[name] for name in METRICS if row.get(name) is not None}
    rest: dict[str, Any] = json.loads(row["metrics"]) if row.get("metrics") else {}
    return metrics | {name: _unspelled(value) for name, value in rest.items()}


def writable(text: str) -> str:
    """Replaces lone surrogates, which UTF-8 cannot encode; messages of platforms may have some."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _output_row(output: Digested) -> dict[str, Any]:
    return {"dtype": output.dtype, "shape": list(output.shape), "digest": output.digest, **asdict(output.sketch)}


def _output_of(row: Mapping[str, Any]) -> Digested:
    parts: dict[str, Any] = {name: row[name] for name in _SKETCH}
    parts["sample"] = tuple(parts["sample"])
    return Digested(row["dtype"], tuple(row["shape"]), row["digest"], Sketch(**parts))


def _as_column(value: Any, kind: pa.DataType) -> int | float | None:
    """Converts the value to the column's type; None if it does not fit."""
    if isinstance(value, str):
        value = _NOT_FINITE.get(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if pa.types.is_floating(kind):
        try:
            return float(value)
        except OverflowError:
            return None
    low, high = (0, 1 << 64) if pa.types.is_unsigned_integer(kind) else (-(1 << 63), 1 << 63)
    return value if isinstance(value, int) and low <= value < high else None


def _strict_json(value: Any) -> Any:
    """Converts to strict JSON: a float that is not finite gets a tag, so that it differs from a string."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value


def _unspelled(value: Any) -> Any:
    return float(value["float"]) if isinstance(value, dict) and value.keys() == {"float"} else value
