"""Results of comparisons: rows, reports, their JSON form and their place in a store.

Comes in: outcomes, and rows that `mindgap.judge` made. Goes out: a `Report` with totals, its JSON, and records in a
store (`mindgap.results.store`). Must not know how a platform runs or how a row is judged.
"""
