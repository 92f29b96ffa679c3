"""The graphs that are run on every platform of a machine: models, casts, operators, convolutions, distributions.

Weights and inputs are bit for bit the same on every machine. So a graph's digest says whether two machines ran the
same.
"""

from mindgap_studies.machines.subjects.models import full_suite, quick_suite
from mindgap_studies.machines.subjects.runnable import Runnable, runnable
from mindgap_studies.machines.subjects.samples import given_model

__all__ = ["Runnable", "full_suite", "given_model", "quick_suite", "runnable"]
