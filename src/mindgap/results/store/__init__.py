"""Stores runs, outcomes and verdicts as Parquet files, and answers SQL queries over them.

Comes in: rows of the tables that `tables.py` lists, graphs, tensors. Goes out: a directory of immutable Parquet
segments, each published by one atomic rename, and answers to SQL over them. Must not know platforms or
verdict rules. Any number of processes may write at once; a killed process loses at most what it had buffered.
Each name is loaded at its first use: a comparison that keeps nothing needs neither Arrow nor DuckDB (`mindgap[store]`).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from mindgap.results.store.errors import StoreError

if TYPE_CHECKING:
    from mindgap.results.store.records import graph_row, metric_columns, metrics_of, outcome_of, outcome_row
    from mindgap.results.store.store import MergeCounts, Store, new_run
    from mindgap.results.store.tables import TABLES, VERSION
    from mindgap.results.store.writer import Row, Writer

_HOMES: Final = {
    "graph_row": "records",
    "metric_columns": "records",
    "metrics_of": "records",
    "outcome_of": "records",
    "outcome_row": "records",
    "MergeCounts": "store",
    "Store": "store",
    "new_run": "store",
    "TABLES": "tables",
    "VERSION": "tables",
    "Row": "writer",
    "Writer": "writer",
}

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'mindgap.results.store' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"mindgap.results.store.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("duckdb", "pyarrow"):
            raise
        raise StoreError(f"a store needs {error.name}, which is not installed: pip install 'mindgap[store]'") from None
