"""Measures mindgap itself by injecting faults.

Comes in: small graphs, real and made for the purpose. Goes out: a `SelftestReport`: how many of the faults that
matter were found, how many were traced to the right operator, and how many false alarms there were. The oracle's bounds
decide which faults matter, before anything is judged. Knows nothing of stores or pages.
"""

from mindgap_campaign.selftest.api import run
from mindgap_campaign.selftest.report import CaseRow, SelftestReport

__all__ = ["CaseRow", "SelftestReport", "run"]
