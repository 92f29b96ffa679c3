"""Decides whether two outcomes differ by more than rounding, and which operator is at fault.

Comes in: a graph, outcomes of two platforms, a function that runs more jobs. Goes out: a `Row` with verdict, culprit
and blame. `oracle` bounds what rounding can do, `trace` finds the operator, `pipeline` makes the row. Must not know
how workers are scheduled, or who asks.
"""
