"""Compares models on many platforms with a reference.

Comes in: programs or graphs, names of platforms, the name of a reference. Goes out: a `Report` with a row per model and
platform. `diff` compares platforms; `metamorphic` compares one platform with itself on rewritten graphs. Everything
runs in worker processes. Must not know how a row is judged: that is `mindgap.pipeline` and `mindgap.trace`.
"""

import sys
from types import ModuleType

from mindgap.compare.culprit import Culprit
from mindgap.compare.fault import Fault
from mindgap.diff.api import diff, diff_many
from mindgap.diff.errors import DiffInterrupted, StoreNotWritten
from mindgap.diff.session import Session
from mindgap.diff.subject import ProgressEvent, Subject
from mindgap.results.rows import Model, PlatformFacts, Refused, Report, Row, Totals
from mindgap.results.settings import RunSettings

__all__ = [
    "Culprit",
    "DiffInterrupted",
    "Fault",
    "Model",
    "PlatformFacts",
    "ProgressEvent",
    "Refused",
    "Report",
    "Row",
    "RunSettings",
    "Session",
    "StoreNotWritten",
    "Subject",
    "Totals",
    "diff",
    "diff_many",
]


class _DiffPackage(ModuleType):
    """Makes `mindgap.diff(...)` call `diff`, while `import mindgap.diff` still gives the package."""

    __call__ = staticmethod(diff)


sys.modules[__name__].__class__ = _DiffPackage
