"""Reduces a finding to a small graph with the same symptom, and writes a script that shows it without mindgap.

Comes in: a graph and the row of a finding in it. Goes out: the smallest graph found, its nearest neighbour that is
calm, and a verified script with a report. The passes (`passes`, `edits`) know graphs and eager PyTorch only: they ask a
check whether a graph shows the symptom. `symptom` makes that check from a row and the pipeline. Must not know
campaigns.
"""

from mindgap.findings.reduction.reducer import Answer, Reduction, ReductionLimits, reduce
from mindgap.findings.reduction.simplicity_order import simplicity

__all__ = ["Answer", "Reduction", "ReductionLimits", "reduce", "simplicity"]
