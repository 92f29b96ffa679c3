"""Runs the study of "Mind the Gap" (arXiv 2511.11601) on a store: each table is one query.

Input: a store with a run of `diff` or of a campaign. Output: tables, and whether their totals agree.
"""

from mindgap_studies.gap.published import PUBLISHED, Published
from mindgap_studies.gap.reconcile import Check, checks
from mindgap_studies.gap.study import TABLES, Study, gap, gap_object

__all__ = ["PUBLISHED", "TABLES", "Check", "Published", "Study", "checks", "gap", "gap_object"]
