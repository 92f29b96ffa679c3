"""Loads several graphs together, for the jobs that follow."""

from __future__ import annotations

from collections.abc import Sequence

from mindgap.graph import Graph, MindgapError, TensorStore
from mindgap.platforms.protocol import CompileFailure, Fallback, LoadsMany, Platform, Unsupported
from mindgap.run.identity import digest_of
from mindgap.run.local import Caches, Loaded, make_inputs
from mindgap.run.outcome import Array, Job


def prepare(platform: Platform, graphs: Sequence[Graph], tensors: TensorStore, caches: Caches) -> tuple[int, str]:
    """Loads the graphs into `caches`. Returns how many are there now, loaded or refused, and an error message.

    A graph is left out, and its job loads it, if its inputs cannot be made or if it fails without a typed error.
    A platform that loads one graph at a time leaves all of them out.
    """
    if not isinstance(platform, LoadsMany):
        return 0, ""
    wanted = [graph for graph in graphs if caches.graphs.get((digest_of(graph), "")) is None]
    held = len(graphs) - len(wanted)
    made = [(graph, given) for graph in wanted if (given := _inputs(graph, tensors, caches)) is not None]
    if not made:
        return held, ""
    try:
        loaded = platform.load_many([graph for graph, _ in made], [given for _, given in made])
        if len(loaded) != len(made):
            raise ValueError(f"{len(loaded)} answers for {len(made)} graphs")
    except Exception as error:  # the platform broke its contract: what is left of it must not meet a job
        caches.clear()
        return 0, f"{type(error).__name__}: {error}"
    for (graph, given), one in zip(made, loaded, strict=True):
        if not isinstance(one, Exception) or isinstance(one, (Unsupported, CompileFailure, Fallback)):
            caches.graphs.put((digest_of(graph), ""), Loaded(one, given, fresh=True), sum(a.nbytes for a in given))
            held += 1
    return held, ""


def _inputs(graph: Graph, tensors: TensorStore, caches: Caches) -> list[Array] | None:
    try:
        return make_inputs(Job("", graph), tensors, caches)
    except MindgapError:
        return None
