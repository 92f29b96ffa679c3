"""`faulty/eager`: PyTorch's eager mode with injected faults, to measure the judge.

Comes in: a `Graph`, its inputs, and a file of faults (docs/verdicts.md). Goes out: outputs with the faults in them.
`schema` is read in the parent process and imports no framework; `injection` (which calls a fault applies to) and
`corruption` (what it does to a result) run in a worker. The entry point of the platform is `BACKEND`.
"""

from mindgap_campaign.faulty.backend import BACKEND

__all__ = ["BACKEND"]
