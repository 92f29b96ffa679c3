"""Finds the function of an exporter or a front end that translates an operator."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from mindgap.findings.causes.key import front_end_of
from mindgap.findings.causes.packets import function_of
from mindgap.graph import MindgapError
from mindgap.platforms.environments import Host
from mindgap.platforms.name import PlatformName
from mindgap.platforms.other_environment import BackendInEnvironment
from mindgap.platforms.registry import find

_log = logging.getLogger(__name__)
_READER: Final = Path(__file__).with_name("rule_reader.py")
_READ_S: Final = 120.0
#: Stages at which an operator is translated.
TRANSLATES: Final = frozenset({"exporter", "front end"})


@dataclass(frozen=True, slots=True)
class TranslationRule:
    """A function that translates an operator. `file`: in its package. `code`: equal for functions of equal code."""

    name: str
    file: str
    code: str

    def __str__(self) -> str:
        return f"{self.name} in {self.file}"


def rule_of(platform: PlatformName, op: str) -> TranslationRule | None:
    """The rule for an overload on the way to a platform; None where there is none, or it cannot be read.

    Where the overload has no rule, that of its packet counts, then the only one of its function (`_softmax` for
    `softmax`).
    """
    front_end = front_end_of(platform)
    known = rules(_python_of(platform)).get(front_end) if front_end else None
    if not known or op.count(".") != 2:
        return None
    _, packet, variant = op.split(".")
    exact = known.get(f"{packet}.{variant}") or known.get(packet)
    if exact is not None:
        return exact
    of_function = {rule.code: rule for name, rule in known.items() if _is_of(name, function_of(op))}
    return next(iter(of_function.values())) if len(of_function) == 1 else None


def _is_of(name: str, function: str) -> bool:
    return function_of(f"aten.{name}" if "." in name else f"aten.{name}.default") == function


@cache
def rules(python: str) -> Mapping[str, Mapping[str, TranslationRule]]:
    """The rules in an interpreter's packages, by front end and operator; empty where it cannot be asked."""
    if not python:
        return {}
    try:
        done = subprocess.run([python, str(_READER)], capture_output=True, text=True, timeout=_READ_S, check=True)
        found: list[list[str]] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        _log.info("%s: its translation rules cannot be read: %s", python, error)
        return {}
    made: dict[str, dict[str, TranslationRule]] = {}
    for front_end, op, name, file, code in found:
        made.setdefault(front_end, {}).setdefault(op, TranslationRule(name, file, code))
    return made


@cache
def _python_of(platform: PlatformName) -> str:
    """The interpreter that translates programs for a platform; empty for one of a host."""
    try:
        backend, _ = find(platform)
    except MindgapError:
        return sys.executable
    if not isinstance(backend, BackendInEnvironment):
        return sys.executable
    # The rules of a host are not read.
    return "" if isinstance(backend.where, Host) else backend.where.python
