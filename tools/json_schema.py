"""Writes the JSON schema of `mindgap diff --json` from the dataclasses of a report.

python tools/json_schema.py    # docs/schema/report-1.json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from mindgap.results.report_json import SCHEMA
from mindgap.results.rows import Report, Totals

FILE = Path(__file__).parents[1] / "docs" / "schema" / f"report-{SCHEMA}.json"
#: What `encode_report` adds to the fields of the dataclasses.
ROW = {
    "word": {"type": "string", "description": "The verdict, or why there is none: unsupported, not_run, unjudged, …"},
    "finding": {"type": "boolean"},
    "outputs": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"index": {"type": "integer"}, "verdict": {"type": ["string", "null"]}},
            "required": ["index", "verdict"],
        },
    },
}
MODEL = {
    "classes": {
        "type": "array",
        "items": {"type": "array", "items": {"type": "string"}},
        "description": "Platforms that gave the same bits, the reference's class first.",
    }
}


def schema() -> dict[str, Any]:
    """Returns the schema. Every field is written, and required; a later version may add fields."""
    report = TypeAdapter(Report).json_schema(mode="serialization")
    definitions: dict[str, Any] = report.pop("$defs")
    definitions["Totals"] = TypeAdapter(Totals).json_schema(mode="serialization")
    definitions["Row"]["properties"] |= ROW
    definitions["Model"]["properties"] |= MODEL
    properties = report["properties"]
    del properties["version"]
    head = {"schema": {"const": SCHEMA}, "mindgap": {"type": "string", "description": "The version that wrote it."}}
    tail = {"totals": {"$ref": "#/$defs/Totals"}, "nothing": {"type": ["string", "null"]}}
    report["properties"] = {**head, **properties, **tail}
    whole = _strict({**report, "$defs": definitions})
    # JSON has no infinity and no NaN.
    whole["$defs"]["Number"] = {"anyOf": [{"type": "number"}, {"enum": ["nan", "inf", "-inf"]}]}
    whole["title"] = "mindgap diff --json"
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **whole}


def _strict(value: Any) -> Any:
    """Returns a schema without titles and defaults, in which all fields of an object are required."""
    if isinstance(value, list):
        return [_strict(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "number":
        return {"$ref": "#/$defs/Number"}
    if "properties" not in value:
        return {key: _strict(each) for key, each in value.items() if key not in ("title", "default")}
    fields = {name: _strict(each) for name, each in value["properties"].items()}
    rest = {key: _strict(each) for key, each in value.items() if key not in ("title", "default", "properties")}
    # Metrics that were not measured are missing.
    optional = value.get("additionalProperties") is True
    return {**rest, "properties": fields} | ({} if optional else {"required": list(fields)})


if __name__ == "__main__":
    FILE.write_text(json.dumps(schema(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    sys.exit(0)
