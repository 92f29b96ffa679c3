"""Counts how many names of PyTorch's sample database run on a platform, and why the others do not.

A name runs if a sample of one of its variants does, as a captured graph. What no graph can hold (a result that is no
tensor, a sparse operand, a distribution without a recipe) is run in eager mode on the CPU by itself.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from mindgap.graph import Graph, MindgapError, TensorStore
from mindgap.graph.operators.registry import traits
from mindgap.graph_capture import CaptureError
from mindgap.platforms.name import CPU_EAGER, PlatformName
from mindgap.run.outcome import Job, Outcome
from mindgap.sources import Captured, capture_built, open_source
from mindgap_surveys.support.probe_file import PATH_TAKEN
from mindgap_surveys.support.probes import OnProgress
from mindgap_zoo.operator_samples.operators import run_sample, sample_database

#: - `graph`: a captured graph of a sample ran on the platform.
#: - `program`: no graph can hold the samples; one ran in eager mode on the CPU.
#: - `not run`: neither did.
How = Literal["graph", "program", "not run"]
UNWRITTEN: Final = "nobody writes its results: they are what the memory held"
#: Samples of one variant that are tried until one runs.
_SAMPLES: Final = 3
_DEADLINE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class NameRun:
    """A name of the database on a platform. `sample`: the source that ran. `reason`: why no graph did, or why its
    results cannot be compared, in one line."""

    name: str
    how: How
    sample: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NamedSamples:
    """The graphs of a name's samples, by source. `reason`: as of `NameRun`. `eager`: the source whose sample runs in
    eager mode all the same; empty for none."""

    name: str
    graphs: Mapping[str, Graph]
    reason: str = ""
    eager: str = ""


def named_samples(
    tensors: TensorStore, only: Sequence[str] = (), on_progress: OnProgress = lambda done, total, what: None
) -> Iterator[NamedSamples]:
    """Captures samples of each name of the database. `only`: these names. Raises `SourceError` without the suite."""
    names = {name: variants for name, variants in sample_database().items() if not only or name in only}
    for done, (name, variants) in enumerate(names.items()):
        on_progress(done, len(names), name)
        with warnings.catch_warnings(record=True):  # Each warns of what a path holds, which is not read here.
            yield _samples_of(name, variants, tensors)


def run_names(
    samples: Sequence[NamedSamples], platform: PlatformName, execute: Callable[[Job], Outcome],
    on_progress: OnProgress = lambda done, total, what: None,
) -> list[NameRun]:  # fmt: skip
    """Runs a sample of each name on a platform, the next one where one does not run."""
    runs: list[NameRun] = []
    for done, each in enumerate(samples):
        on_progress(done, len(samples), f"{platform} {each.name}")
        runs.append(_run(each, platform, execute))
    return runs


def _run(samples: NamedSamples, platform: PlatformName, execute: Callable[[Job], Outcome]) -> NameRun:
    reasons: list[str] = []
    for source, graph in samples.graphs.items():
        outcome = execute(Job(platform, graph, repeat=1, deadline_s=_DEADLINE_S, purpose="asking"))
        if outcome.ran:
            return NameRun(samples.name, "graph", source, samples.reason)
        reasons.append(f"{outcome.status}: {' '.join(outcome.message.split())}")
    if not samples.graphs and samples.eager and platform == CPU_EAGER:
        return NameRun(samples.name, "program", samples.eager, samples.reason)
    return NameRun(samples.name, "not run", "", reasons[0] if reasons else samples.reason)


def _samples_of(name: str, variants: Sequence[str], tensors: TensorStore) -> NamedSamples:
    graphs: dict[str, Graph] = {}
    reasons: list[str] = []
    # Two runs differ in what the memory held: replaying them would refuse a graph by chance.
    unwritten = traits(name).returns_uninitialised
    for variant in variants:
        try:
            graphs |= _graphs(f"ops:{variant}", tensors, verify=not unwritten)
        except MindgapError as error:
            reasons.append(str(error))
    if graphs:
        return NamedSamples(name, graphs, UNWRITTEN if unwritten else "")
    for variant in variants:
        try:
            run_sample(variant)
        except MindgapError as error:
            reasons.insert(0, str(error))
        else:
            return NamedSamples(name, {}, reasons[0], eager=f"ops:{variant}")
    return NamedSamples(name, {}, reasons[0])


def _graphs(source: str, tensors: TensorStore, verify: bool) -> dict[str, Graph]:
    """Captures samples of a source; along the path that values decide, where they need it. Raises `CaptureError`."""
    graphs: dict[str, Graph] = {}
    refused: CaptureError | None = None
    for program in open_source(source)[:_SAMPLES]:
        assert not isinstance(program, Captured), "samples are programs"
        for path_taken in (False, True):
            try:
                built = dataclasses.replace(program.make(), path_taken=path_taken)
                graph = capture_built(built, tensors, verify=verify)
            except CaptureError as error:
                refused = error
            else:
                graphs[f"{program.source}?{PATH_TAKEN}" if path_taken else program.source] = graph
                break
    if not graphs and refused is not None:
        raise refused
    return graphs
