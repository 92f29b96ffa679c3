"""Loads several graphs together, for the jobs that follow."""

from __future__ import annotations

from collections.abc import Sequence

from mindgap.graph import MindgapError, TensorStore
from mindgap.platforms.protocol import CompileFailure, Fallback, LoadsMany, Platform, Unsupported
from mindgap.run.local import Caches, Loaded, key_of, make_inputs
from mindgap.run.outcome import Array, Job


def prepare(platform: Platform, jobs: Sequence[Job], tensors: TensorStore, caches: Caches) -> tuple[int, str]:
    """Loads the jobs' graphs into `caches`. Returns how many are there now, loaded or refused, and an error message.

    A graph is left out, and its job loads it, if its inputs cannot be made or if it fails without a typed error.
    A platform that loads one graph at a time leaves all of them out.
    """
    if not isinstance(platform, LoadsMany):
        return 0, ""
    distinct = {key_of(job): job for job in jobs}
    wanted = {key: job for key, job in distinct.items() if caches.graphs.get(key) is None}
    held = len(jobs) - len(wanted)
    made = [(key, job, given) for key, job in wanted.items() if (given := _inputs(job, tensors, caches)) is not None]
    if not made:
        return held, ""
    try:
        loaded = platform.load_many([job.graph for _, job, _ in made], [given for _, _, given in made])
        if len(loaded) != len(made):
            raise ValueError(f"{len(loaded)} answers for {len(made)} graphs")
    except Exception as error:  # the platform broke its contract: what is left of it must not meet a job
        caches.clear()
        return 0, f"{type(error).__name__}: {error}"
    for (key, job, given), one in zip(made, loaded, strict=True):
        if not isinstance(one, Exception) or isinstance(one, (Unsupported, CompileFailure, Fallback)):
            own = None if job.inputs else given
            caches.graphs.put(key, Loaded(one, own, fresh=True), sum(a.nbytes for a in given))
            held += 1
    return held, ""


def _inputs(job: Job, tensors: TensorStore, caches: Caches) -> list[Array] | None:
    try:
        return make_inputs(job, tensors, caches)
    except MindgapError:
        return None
