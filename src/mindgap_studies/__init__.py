"""Answers one question each by tables over a store.

Input: a store. Output: tables whose totals reconcile, since each is one query. Runs nothing.
"""

from mindgap_studies.table import StudyTable, column, records, to_csv

__all__ = ["StudyTable", "column", "records", "to_csv"]
