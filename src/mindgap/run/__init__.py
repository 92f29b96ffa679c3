"""Runs jobs on platforms in worker processes: one process per platform, so that a crash costs one outcome.

Comes in: (graph, platform) jobs. Goes out: outcomes, one for each job, with digests and sketches of
the outputs, and whole outputs where they are asked for. Knows nothing of verdicts, and the parent's
side imports no machine-learning framework.
"""

from mindgap.run.failure_signature import signature
from mindgap.run.outcome import Job, Outcome, Status, Want
from mindgap.run.pool import WorkerPool

__all__ = ["Job", "Outcome", "Status", "Want", "WorkerPool", "signature"]
