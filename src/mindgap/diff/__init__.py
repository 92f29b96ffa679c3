"""One model, many platforms, one honest verdict each.

Comes in: programs or graphs, the names of platforms, the name of a reference. Goes out: a `Report`
with a row per model and platform. Runs everything through worker processes, moves whole outputs only
where digests differ, and leaves every judgement to `mindgap.trace`.
"""

import sys
from types import ModuleType

from mindgap.compare.culprit import Culprit
from mindgap.diff.api import diff, diff_many
from mindgap.diff.subject import ProgressEvent, Subject
from mindgap.results.rows import Model, PlatformFacts, Refused, Report, Row, Totals
from mindgap.results.settings import RunSettings

__all__ = [
    "Culprit",
    "Model",
    "PlatformFacts",
    "ProgressEvent",
    "Refused",
    "Report",
    "Row",
    "RunSettings",
    "Subject",
    "Totals",
    "diff",
    "diff_many",
]


class _CallablePackage(ModuleType):
    """Makes `mindgap.diff(...)` call `diff`, while `import mindgap.diff` still gives the package."""

    __call__ = staticmethod(diff)


sys.modules[__name__].__class__ = _CallablePackage
