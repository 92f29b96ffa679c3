"""Counts the stages at fault of listed causes: `python tools/findings/stages.py FOLDER|SCRIPT… [--findings DIR]`.

Names are below `--findings`, by default docs/findings.

It captures the program of each script, runs it on the script's platform, and looks for the stage. It prints the stage
and the evidence of each, then a count for each platform.
"""

from __future__ import annotations

import argparse
import ast
import json
import time
from collections import Counter
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mindgap.findings.reduction.stage import stage_at_fault
from mindgap.graph import TensorStore, default_tensor_store
from mindgap.graph_capture import capture
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.platforms.name import parse
from mindgap.results.settings import RunSettings
from mindgap.run.pool import WorkerPool

FINDINGS = Path(__file__).parents[1] / "docs" / "findings"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--findings", type=Path, default=FINDINGS)
    arguments = parser.parse_args()
    findings: Path = arguments.findings
    scripts = sorted(path for name in arguments.names for path in _scripts(findings / name))
    platforms = {
        finding["script"]: finding["platform"]
        for cause in json.loads((findings / "causes.json").read_text())["causes"]
        for finding in cause["findings"]
    }
    counts: Counter[tuple[str, str]] = Counter()
    tensors = default_tensor_store()
    with WorkerPool(["cpu/eager"], tensors=tensors, busy=1, grows=True) as pool:
        context = RunContext(pool.run, RunSettings(), tensors, pool.describe)
        for script in scripts:
            platform = platforms.get(str(script.relative_to(findings)))
            if platform is None:
                continue
            began = time.monotonic()
            stage, evidence = _stage(context, tensors, script, platform)
            counts[platform.partition("@")[0], stage] += 1
            print(f"{script.relative_to(findings)}: {stage} ({time.monotonic() - began:.0f} s)", flush=True)
            for sentence in evidence:
                print(f"    {sentence}", flush=True)
    for (platform, stage), number in sorted(counts.items()):
        print(f"{platform}\t{stage}\t{number}")


def _scripts(place: Path) -> list[Path]:
    return list(place.glob("*.py")) if place.is_dir() else [place]


def _stage(context: RunContext, tensors: TensorStore, script: Path, platform: str) -> tuple[str, tuple[str, ...]]:
    try:
        model, arguments = _program(script)
        graph = capture(model.eval(), arguments, tensors=tensors)
        row = GraphComparison(context, script.stem, graph).row(parse(platform))
    except Exception as error:
        return "not run", (f"{type(error).__name__}: {error}",)
    if not row.finding:
        return "no finding", (f"{row.verdict}: {row.message}",)
    found = stage_at_fault(context, graph, row)
    return found.stage, found.evidence


def _program(script: Path) -> tuple[Any, tuple[Any, ...]]:
    """The model of a script, or that of its first case, with arguments. Runs neither its imports nor its `main`."""
    body = ast.parse(script.read_text(encoding="utf-8")).body
    body = [node for node in body if isinstance(node, (ast.Assign, ast.ClassDef, ast.FunctionDef))]
    names: dict[str, Any] = {"__name__": script.stem, "torch": torch, "np": np, "inf": inf, "nan": nan}
    exec(compile(ast.Module(body, []), str(script), "exec"), names)
    if "CASES" in names:
        model, fresh = next(iter(names["CASES"].values()))
        return model(), fresh()
    numbers = sorted(int(name[1:]) for name in names if name[0] == "x" and name[1:].isdecimal())
    return names["Model"](), tuple(names[f"x{number}"] for number in numbers)


if __name__ == "__main__":
    main()
