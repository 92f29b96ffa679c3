"""Runs the deviations study on observations of one's own machines.

Input: observations of machines (`mindgap_studies.machines.merging`). Output: tables named `own_…`. Must not know how
anything was run.
"""

from mindgap_studies.deviations.own.study import own_study

__all__ = ["own_study"]
