"""Writes a short script that runs the culprit of a row by itself."""

from __future__ import annotations

from mindgap.platforms.registry import environment, find, is_import_path, parse
from mindgap.results.rows import Row
from mindgap.script import Target
from mindgap.script.short import short_script
from mindgap.trace.judgement import OperatorAlone


def target_of(platform: str) -> Target:
    """The platform as a script runs it, with the environment variables that its worker starts with."""
    backend, _ = find(platform)
    return Target.of(platform, environment(parse(platform), backend))


def culprit_script(row: Row, alone: OperatorAlone | None, reference: str) -> str:
    """The script; empty where the operator or the platform has no short form. It was not run.

    `alone`: the culprit with the operands on which it was found wrong.
    """
    if alone is None or row.culprit is None or reference != "cpu/eager" or is_import_path(row.platform):
        return ""
    title = f"{row.platform} and eager PyTorch differ: {row.culprit.op}: {row.word.replace('_', ' ')}"
    wrong = row.blame or "undecided"
    return short_script(alone.graph, target_of(row.platform), title, wrong=wrong, inputs=alone.inputs) or ""
