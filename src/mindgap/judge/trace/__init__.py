"""Judges two outcomes of one graph and traces a difference to the operator at fault.

Comes in: a graph, its inputs, the outputs of two platforms, and a function that runs more jobs on them. Goes out: a
`Judgement` with verdict, culprit and blame. Single operators run on common operands first, then windows of a few
operators, then parts of the captured graph. Must not know workers or the store.
"""
