"""Compares models on many platforms with a reference.

Comes in: programs or graphs, names of platforms, the name of a reference. Goes out: a `Report` with a row per model and
platform. Everything runs in worker processes. Must not know how a row is judged: that is `mindgap.judge.pipeline` and
`mindgap.judge.trace`.
"""

from mindgap.graph.compare.culprit import Culprit
from mindgap.graph.compare.verdict import Fault
from mindgap.results.rows import Model, PlatformFacts, Refused, Report, Row, Totals
from mindgap.results.settings import RunSettings
from mindgap.workflows.diff.api import diff, diff_many
from mindgap.workflows.diff.session import DiffInterrupted, Session, StoreNotWritten
from mindgap.workflows.diff.subject import ProgressEvent, Subject

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
