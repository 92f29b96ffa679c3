"""Results of comparisons: rows, reports, their JSON form and their place in a store.

Comes in: rows that `mindgap.pipeline` made. Goes out: a `Report` with totals, its JSON, and records in a store. Must
not know how a platform runs or how a row is judged. `diff`, `campaign`, `report` and `baseline` share this package.
"""
