"""Answers one question each by tables: the studies of the papers, and of a task.

Input: a store, published data, or models that the rooms `machines`, `task_runs` and `porting_runs` run. Output: tables
whose totals reconcile, since each is one query. A room of tables knows nothing of how its rows were run.
"""

from mindgap_surveys.table import StudyTable, column, records, to_csv

__all__ = ["StudyTable", "column", "records", "to_csv"]
