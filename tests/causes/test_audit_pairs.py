"""Findings that an outside audit put down to one mechanism are one cause, and their neighbours stay apart."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from causes.made_summaries import group, summary
from causes.test_swapping import graph
from mindgap.findings.causes import causes_of
from mindgap.findings.causes.key import damage_of
from mindgap.findings.causes.mechanism import ReducedCase, ShownDamage, pairs_to_compare, same_mechanism
from mindgap.graph import Graph

CAUSES: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("audit_pairs.toml").read_text())["cause"]
#: Arguments of the operators that are swapped, behind their first operand.
ARGUMENTS = {"pool2d": ((2, 2),), "pool3d": ((2, 2, 2),), "softmax": (-1,)}


def cases() -> Iterator[tuple[str, ReducedCase, bool]]:
    """For each finding of the file the name of its cause, the case, and whether its operators can be swapped."""
    for number, cause in enumerate(CAUSES):
        for index, finding in enumerate(cause["findings"]):
            given = {**finding, "script": f"{number}-{index}.py", "dtypes": tuple(finding.get("dtypes", ["float32"]))}
            operators, parts = given.pop("operators"), tuple(given.pop("parts", ()))
            made = summary(given.pop("platform"), given.pop("verdict"), *operators, **given)
            swaps = bool(cause.get("swaps"))
            yield cause["name"], ReducedCase(made, _graph(operators[0]) if swaps else None, None, parts), swaps


def _graph(op: str) -> Graph:
    name = op.split(".")[1] if "." in op else op
    arguments = next((given for part, given in ARGUMENTS.items() if part in name), ())
    rank = 4 if "2d" in name else 5 if "3d" in name else 3
    inputs = ((1, 2, *(4,) * (rank - 2)),)
    return graph(op.removeprefix("aten.") if "." in op else f"{op}.default", *arguments, inputs=inputs)


def test_findings_join_as_the_audit_says() -> None:
    found = list(cases())
    name_of = {case.summary.script: name for name, case, _ in found}
    swap_of = {(case.summary.platform, op) for _, case, swaps in found if swaps for op in case.summary.operators}
    evidence = []
    for first, second in pairs_to_compare([case for _, case, _ in found], most=1000):

        def run(platform: str, draft: Graph, one: ReducedCase = first) -> ShownDamage | None:
            if not all((platform, node.op) in swap_of for node in draft.nodes):
                return ShownDamage(None)
            made = one.summary
            return ShownDamage(
                damage_of(made.verdict, made.status, special=made.special_inputs), made.stage, made.signature
            )

        same = same_mechanism(first, second, run)
        evidence += [] if same is None else [same]
    joined = causes_of([group(case.summary) for _, case, _ in found], evidence)
    held = [{name_of[finding.script] for finding in cause.findings} for cause in joined]
    assert [names for names in held if len(names) > 1] == [], "two mechanisms in one cause"
    assert sorted(itertools.chain(*held)) == sorted(cause["name"] for cause in CAUSES), "one mechanism in two causes"
    assert all(name_of[each.first] == name_of[each.second] for each in evidence)
    assert any(cause.merged for cause in joined)
