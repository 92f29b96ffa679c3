"""Finds where a model's behaviour changes when the hardware or the runtime under it does.

`docs/architecture.md` describes each subpackage. Importing this package imports no machine-learning framework: each
name is loaded at its first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mindgap.findings.allowed import mark_allowed
    from mindgap.findings.known import Baseline
    from mindgap.graph import Graph, MindgapError
    from mindgap.graph_capture import capture
    from mindgap.workflows.diff import Report, Row, Session, Subject, diff, diff_many

__version__ = "0.2.0"

_HOMES: Final = {
    "Baseline": "mindgap.findings.known",
    "Graph": "mindgap.graph",
    "MindgapError": "mindgap.graph",
    "Report": "mindgap.workflows.diff",
    "Row": "mindgap.workflows.diff",
    "Session": "mindgap.workflows.diff",
    "Subject": "mindgap.workflows.diff",
    "capture": "mindgap.graph_capture",
    "diff": "mindgap.workflows.diff",
    "diff_many": "mindgap.workflows.diff",
    "mark_allowed": "mindgap.findings.allowed",
}

__all__ = [
    "Baseline",
    "Graph",
    "MindgapError",
    "Report",
    "Row",
    "Session",
    "Subject",
    "__version__",
    "capture",
    "diff",
    "diff_many",
    "mark_allowed",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'mindgap' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
