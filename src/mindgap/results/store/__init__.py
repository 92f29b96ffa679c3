"""Stores runs, outcomes and verdicts as Parquet files, and answers SQL queries over them.

Comes in: rows of the tables that `tables.py` lists, graphs, tensors. Goes out: a directory of immutable Parquet
segments, each published by one atomic rename, and answers to SQL over them. Must not know platforms or
verdict rules. Any number of processes may write at once; a killed process loses at most what it had buffered.
"""

from mindgap.results.store.errors import StoreError
from mindgap.results.store.records import graph_row, metric_columns, metrics_of, outcome_of, outcome_row
from mindgap.results.store.store import MergeCounts, Store, new_run
from mindgap.results.store.tables import TABLES, VERSION
from mindgap.results.store.writer import Row, Writer

__all__ = [
    "TABLES",
    "VERSION",
    "MergeCounts",
    "Row",
    "Store",
    "StoreError",
    "Writer",
    "graph_row",
    "metric_columns",
    "metrics_of",
    "new_run",
    "outcome_of",
    "outcome_row",
]
