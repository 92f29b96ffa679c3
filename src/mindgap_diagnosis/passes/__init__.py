"""Names the pass of a runtime's optimiser that brings a fault, and the line that switches just that off.

Comes in: runs of a platform's variants, each of which shows the fault or not, and the stage at fault. Goes out: names,
and a line of a deployment. Runs decide: a pass is named where the fault is gone without it, twice.
"""
