"""The tables and figures of one question each, asked of a store.

Comes in: a store. Goes out: tables whose totals reconcile, since each is one query. Runs nothing.
"""

from mindgap.studies.table import Table, column, records, to_csv

__all__ = ["Table", "column", "records", "to_csv"]
