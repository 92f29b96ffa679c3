"""Reduces a graph that shows a symptom to a small one that shows the same symptom.

Comes in: a graph, its tensors, and a check that says whether a graph shows the symptom. Goes out: the smallest graph
found, its nearest neighbour that does not show it, and how many checks that took. Knows graphs and eager PyTorch; what
the symptom is, and on which platform, only the check knows (`mindgap.reduction.symptom` makes one from a row).
"""

from mindgap.reduction.reducer import Answer, Reduction, ReductionLimits, reduce
from mindgap.reduction.simplicity_order import simplicity

__all__ = ["Answer", "Reduction", "ReductionLimits", "reduce", "simplicity"]
