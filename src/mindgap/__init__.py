"""Finds where a model's behaviour changes when the hardware or the runtime under it does.

`docs/architecture.md` describes each subpackage. Importing this package imports no machine-learning framework: each
name is loaded at its first use. `mindgap.diff` and `mindgap.capture` are packages that can also be called:
`mindgap.diff(model, args, platforms=[...])`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mindgap.baseline import Baseline
    from mindgap.capture import capture
    from mindgap.diff import Report, Row, Session, diff, diff_many
    from mindgap.graph import Graph, MindgapError

__version__ = "0.1.0"

_HOMES: Final = {
    "Baseline": "mindgap.baseline",
    "Graph": "mindgap.graph",
    "MindgapError": "mindgap.graph",
    "Report": "mindgap.diff",
    "Row": "mindgap.diff",
    "Session": "mindgap.diff",
    "capture": "mindgap.capture",
    "diff": "mindgap.diff",
    "diff_many": "mindgap.diff",
}

__all__ = [
    "Baseline",
    "Graph",
    "MindgapError",
    "Report",
    "Row",
    "Session",
    "__version__",
    "capture",
    "diff",
    "diff_many",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'mindgap' has no attribute {name!r}")
    module = importlib.import_module(home)
    value = module if home == f"mindgap.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
