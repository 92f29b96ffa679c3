"""From two outcomes that differ to the operator at fault.

Comes in: a graph, its inputs, what two platforms gave, and a way to run more jobs on them. Goes out: a judgement
with verdict, culprit and blame. Single operators are run on common operands first, then cuts of a few operators,
then prefixes. Knows neither workers nor the store.
"""
