"""Groups findings by root cause, ranks the causes, and recognises those that are known.

Comes in: summaries of reduced findings, or rows that were not reduced. Goes out: causes with class and severity,
worst first, and their file `causes.json`. Must not know campaigns, pages, or how a platform runs.
"""

from mindgap.findings.causes.cause import Cause, KnownIssue
from mindgap.findings.causes.clusters import ReducedGroup, causes_of, causes_of_rows
from mindgap.findings.causes.files import FILE_NAME, causes_text, read_causes
from mindgap.findings.causes.key import CauseKey, cause_key_of_row, cause_key_of_summary
from mindgap.findings.causes.severity import ConditionUse, severity_of

__all__ = [
    "FILE_NAME",
    "Cause",
    "CauseKey",
    "ConditionUse",
    "KnownIssue",
    "ReducedGroup",
    "cause_key_of_row",
    "cause_key_of_summary",
    "causes_of",
    "causes_of_rows",
    "causes_text",
    "read_causes",
    "severity_of",
]
