"""Says what schemas operators have in the PyTorch of an environment: `python -m mindgap.aten.schemas`.

Reads a JSON list of overloads (`aten.add.Tensor`) and prints a JSON object: for each that PyTorch has, its schema, and
its arguments in order as [name, default, only by name, type]. The default is text, null where there is none.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from mindgap.aten.operators import overload
from mindgap.aten.torch_private.overloads import schema_of
from mindgap.graph import MindgapError


def schemas(overloads: list[str]) -> dict[str, dict[str, Any]]:
    """The schemas of the overloads that this PyTorch has."""
    by_name: dict[str, dict[str, Any]] = {}
    for name in overloads:
        try:
            schema = schema_of(overload(name))
        except MindgapError:
            continue
        arguments: list[list[Any]] = []
        for each in schema.arguments:
            default = repr(each.default_value) if each.has_default_value() else None
            arguments.append([each.name, default, each.kwarg_only, str(each.type)])
        by_name[name] = {"schema": str(schema), "arguments": arguments}
    return by_name


if __name__ == "__main__":
    sys.stdout.write(json.dumps(schemas(json.load(sys.stdin))) + "\n")
