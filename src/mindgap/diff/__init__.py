"""One model, many platforms, one honest verdict each.

Comes in: programs or graphs, the names of platforms, the name of a reference. Goes out: a `Report`
with a row per model and platform. Runs everything through worker processes, moves whole outputs only
where digests differ, and leaves every judgement to `mindgap.trace`.
"""

from mindgap.diff.api import diff, diff_many
from mindgap.diff.rows import Culprit, Model, PlatformFacts, Refused, Report, Row, Totals
from mindgap.diff.session import Settings, Subject, Tick

__all__ = [
    "Culprit",
    "Model",
    "PlatformFacts",
    "Refused",
    "Report",
    "Row",
    "Settings",
    "Subject",
    "Tick",
    "Totals",
    "diff",
    "diff_many",
]
