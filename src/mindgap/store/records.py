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

from mindgap.compare.digest import Digested, Sketch
from mindgap.graph import Graph, Recipe, Stored, structure_digest
from mindgap.run.identity import digest_of
from mindgap.run.outcome import Outcome
from mindgap.store.tables import METRICS

_SKETCH: Final = tuple(field.name for field in fields(Sketch))
_NOT_FINITE: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def graph_row(graph: Graph, *, name: str = "", source: str = "", variant: str | None = None) -> dict[str, Any]:
    """A row of `graphs`. `variant`: JSON that says how the graph is made from others."""
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


def stored_keys(graph: Graph) -> list[str]:
    """Keys of the tensors kept beside the graph that its inputs are made of, sorted."""
    found: set[str] = set()
    recipes: list[Recipe] = [given.recipe for given in graph.inputs]
    while recipes:
        recipe = recipes.pop()
        if isinstance(recipe, Stored):
            found.add(recipe.key)
        base = getattr(recipe, "base", None)
        if base is not None:
            recipes.append(base)
    return sorted(found)


def outcome_row(run: str, model: str, outcome: Outcome) -> dict[str, Any]:
    """A row of `outcomes`. Whole outputs and node values are not kept."""
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
    """The inverse of `outcome_row`, of a row as `Table.to_pylist` or `Store.rows` gives it."""
    return Outcome(
        platform=row["platform"],
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
    """The typed columns of `verdicts` that metrics fill, and `metrics`: JSON of all that they do not hold exactly.

    A figure whose type is not its column's (an integer `max_abs`, an infinity that is spelled out, a None that is
    there) is in both where the column can hold its value, so that queries see it and reading gives back what was given.
    """
    columns: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, value in metrics.items():
        plain = value.item() if hasattr(value, "item") else value
        held = _held(plain, METRICS[name]) if name in METRICS else None
        columns |= {} if held is None else {name: held}
        if held is None or type(held) is not type(plain):
            rest[name] = _spelled(plain)
    columns["metrics"] = json.dumps(rest, sort_keys=True, default=str) if rest else None
    return columns


def metrics_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `metric_columns`; names in the order of the columns, then the others."""
    found = {name: row[name] for name in METRICS if row.get(name) is not None}
    rest: dict[str, Any] = json.loads(row["metrics"]) if row.get("metrics") else {}
    return found | {name: _unspelled(value) for name, value in rest.items()}


def writable(text: str) -> str:
    """The text without lone surrogates, which no UTF-8 file holds; what a platform says may have some."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _output_row(output: Digested) -> dict[str, Any]:
    return {"dtype": output.dtype, "shape": list(output.shape), "digest": output.digest, **asdict(output.sketch)}


def _output_of(row: Mapping[str, Any]) -> Digested:
    parts: dict[str, Any] = {name: row[name] for name in _SKETCH}
    parts["sample"] = tuple(parts["sample"])
    return Digested(row["dtype"], tuple(row["shape"]), row["digest"], Sketch(**parts))


def _held(value: Any, kind: pa.DataType) -> int | float | None:
    """The value as the column holds it, None where it cannot."""
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


def _spelled(value: Any) -> Any:
    """Strict JSON: a float that is not finite, under a tag that tells it from the string which says the same."""
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value


def _unspelled(value: Any) -> Any:
    return float(value["float"]) if isinstance(value, dict) and value.keys() == {"float"} else value
