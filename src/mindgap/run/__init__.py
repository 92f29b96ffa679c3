"""Runs jobs on platforms in worker processes: one process per platform, so that a crash costs one outcome.

Comes in: (graph, platform) jobs. Goes out: outcomes, one for each job, with digests and sketches of
the outputs, and whole outputs where they are requested. Knows nothing of verdicts, and the parent's
side imports no machine-learning framework. The worker's side (`worker` and what it imports) runs on Python 3.10 and
newer, with numpy, ml_dtypes, xxhash, zstandard and the frameworks of its platform only.
"""
