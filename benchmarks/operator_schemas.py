"""Compares the schemas of all ATen operators in two environments: `python benchmarks/operator_schemas.py FROM TO`.

FROM, TO: names of environments (`mindgap env list`), or `own` for that of mindgap. Operators are those of mindgap's
PyTorch. A default counts as left out: every call is taken to name no argument but the first.
"""

from __future__ import annotations

import argparse

import torch

from mindgap.workflows.diff.schema_changes import schema_changes

CALL = frozenset({(1, frozenset[str]())})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before")
    parser.add_argument("after")
    arguments = parser.parse_args()
    before, after = (None if name == "own" else name for name in (arguments.before, arguments.after))
    names = sorted(
        f"aten.{schema.name.removeprefix('aten::')}.{schema.overload_name or 'default'}"
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("aten::")
    )
    found = schema_changes({"all": dict.fromkeys(names, CALL)}, before, after)
    for each in found:
        print(f"{each.op}: {'; '.join(each.changes)}")
    print(f"{len(found)} of {len(names)} overloads differ, {sum(each.defaults for each in found)} in a default")


if __name__ == "__main__":
    main()
