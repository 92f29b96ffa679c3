"""Runs a draft once on the CPU. A draft that runs becomes a region with the specs that its values really had."""

from __future__ import annotations

import random
import re
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import torch

from mindgap.aten.dead_nodes import without_dead_nodes
from mindgap.aten.specs import RunStopped, SpecRecorder
from mindgap.aten.tape import Tape
from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.graph import Graph, GraphError, Input, TensorSpec, TensorStore, UnknownOperator, materialise
from mindgap.graph.cache import Cache
from mindgap_campaign.synth.mutation.edit import Edit, apply
from mindgap_campaign.synth.regions.cut import MOST_BYTES, RegionCut
from mindgap_campaign.synth.regions.prepared import usable
from mindgap_campaign.synth.regions.region import Origin, Region, ValueStatistics
from mindgap_campaign.synth.regions.statistics import informativeness, statistics_of
from mindgap_campaign.synth.values.recipes import free_inputs, recipes


@contextmanager
def bounded(more: int) -> Generator[None]:
    """Limits the process to `more` bytes beyond its current memory, where the system supports it (Linux)."""
    if sys.platform != "linux":
        yield
        return
    import resource

    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = now + more if soft == resource.RLIM_INFINITY else min(now + more, soft)
    resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


#: Memory that a trial may take beyond what the process has: an operator that asks for more raises instead.
ROOM: Final = 1 << 30
#: Processor seconds that a region's operators may take; ordinary ones take milliseconds. Attention over a sequence of
#: 65,539 takes half a minute, and every variant with it does. A region near the limit may be one on a faster machine.
SLOW: Final = 0.5
#: Inputs that are kept, if their bytes allow it.
_MOST_CACHED: Final = 1 << 20


@dataclass(frozen=True)
class Trial:
    """The result of running a draft. `reason`: why it is no region, as a short signature; empty if it ran.

    `graph`: with the specs that its values had, without the rest; the draft itself where it failed.
    `free`, `input_spans`, `output_spans`: as in `Region`. `drops`: positions of the draft's outputs that say nothing.
    `cpu_seconds`: of running the operators.
    """

    graph: Graph
    free: tuple[int, ...] = ()
    input_spans: tuple[ValueStatistics, ...] = ()
    output_spans: tuple[ValueStatistics | None, ...] = ()
    drops: tuple[int, ...] = ()
    reason: str = ""
    cpu_seconds: float = 0.0


@dataclass(frozen=True)
class _CachedInput:
    tensor: torch.Tensor

    @cached_property
    def span(self) -> ValueStatistics | None:
        return statistics_of(self.tensor)


class InputCache:
    """Caches materialised inputs by spec and recipe. They must not be written to."""

    def __init__(self, nbytes: int = 128 << 20) -> None:
        self._entries: Cache[tuple[TensorSpec, object], _CachedInput] = Cache(_MOST_CACHED, nbytes)

    def tensor(self, given: Input, tensors: TensorStore | None = None) -> torch.Tensor:
        """Returns the tensor of an input. Raises `GraphError` as `materialise` does."""
        return self._entry(given, tensors).tensor

    def span(self, given: Input, tensors: TensorStore | None = None) -> ValueStatistics | None:
        """Returns the statistics of an input's tensor."""
        return self._entry(given, tensors).span

    def forget(self, given: Input) -> None:
        """Removes an input that was written to."""
        self._entries.drop((given.spec, given.recipe))

    def _entry(self, given: Input, tensors: TensorStore | None) -> _CachedInput:
        key = (given.spec, given.recipe)
        entry = self._entries.get(key)
        if entry is None:
            entry = _CachedInput(to_torch(materialise(given, tensors), given.spec))
            self._entries.put(key, entry, given.spec.nbytes)
        return entry


INPUTS: Final = InputCache()


def run_trial(draft: Graph, *, most_bytes: int = MOST_BYTES, tensors: TensorStore | None = None) -> Trial:
    """Runs a draft once, on the CPU, and describes it as it ran.

    Outputs without a finite element, or with one value everywhere, are dropped, and then the nodes and inputs that
    nothing needs any more. `tensors`: where `Stored` recipes are looked up. Never raises for what a draft does wrong.
    """
    if reason := _refused(draft, most_bytes):
        return Trial(draft, reason=reason)
    try:
        given = [INPUTS.tensor(each, tensors) for each in draft.inputs]
    except GraphError:
        return Trial(draft, reason="values: a recipe does not fit")
    before = [_content(each) for each in given]
    watch = SpecRecorder(draft, most_bytes)
    start = time.process_time()
    results, reason = list[torch.Tensor](), ""
    try:
        with _alone():
            results = Tape(draft).run(given, watch, partial(_call, draft))
    except RunStopped as stopped:
        reason = str(stopped)
    except Exception as error:
        reason = _signature(draft.nodes[watch.count].op, error)
    spent = time.process_time() - start
    # Not only operators that say so write to an operand, and not every alias is known for one.
    written = [each for each, old, new in zip(draft.inputs, before, given, strict=True) if _content(new) != old]
    for each in written:
        INPUTS.forget(each)
    if not reason and (written or spent > SLOW):
        reason = "writes to an input" if written else "too slow"
    if reason:
        return Trial(draft, reason=reason, cpu_seconds=spent)
    drops = [position for position, tensor in enumerate(results) if informativeness(tensor) != "useful"]
    kept = sorted(set(range(len(results))).difference(drops))
    if not kept:
        return Trial(draft, reason="useless", drops=tuple(drops), cpu_seconds=spent)
    graph = without_dead_nodes(Graph(draft.inputs, watch.nodes, tuple(draft.outputs[position] for position in kept)))
    input_spans = {number: INPUTS.span(graph.inputs[number], tensors) for number in free_inputs(graph)}
    known = {number: span for number, span in input_spans.items() if span is not None}
    output_spans = tuple(_given(results[position]) for position in kept)
    return Trial(graph, tuple(known), tuple(known.values()), output_spans, tuple(drops), "", spent)


def _refused(draft: Graph, most_bytes: int) -> str:
    """Returns why a draft must not run; empty if it may."""
    for node in draft.nodes:
        if not usable(node):
            return f"unfit: {_packet(node.op)}"
    return "too big" if any(given.spec.nbytes > most_bytes for given in draft.inputs) else ""


def _call(draft: Graph, index: int, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Runs a node. Raises `RunStopped` for sizes that eager does not check: it would read outside of a tensor."""
    packet, wrong = _packet(draft.nodes[index].op), bool(kwargs.get("unsafe"))
    if "batch_norm" in packet:
        like, *others = [each for each in args if isinstance(each, torch.Tensor)]
        wrong = any(each.shape not in (like.shape, like.shape[1:2], (0,)) for each in others)
    if wrong:
        raise RunStopped(f"unchecked sizes: {packet}")
    return function(*args, **kwargs)


def region_of(
    base: str, cut: RegionCut, edits: Sequence[Edit], kinds: Sequence[str] = (), *, most_bytes: int = MOST_BYTES,
    tensors: TensorStore | None = None,
) -> Region | str:  # fmt: skip
    """Makes a region of the cut after all edits (recipes first, then mutations). Returns it, or why it is none.

    `base`: the digest of the graph that the cut is of. Where `kinds` shows that it was mutated, inputs whose recipe
    no longer suits the operators that read them get another.
    """
    try:
        draft = apply(cut.graph, edits)
        if kinds:
            mended, _ = recipes(draft, random.Random(len(edits)), before=cut.graph, tensors=tensors)
            edits, draft = (*edits, *mended), apply(draft, mended)
    except GraphError as error:
        return f"edit: {re.sub(r'[0-9]+', 'N', str(error))}"
    trial = run_trial(draft, most_bytes=most_bytes, tensors=tensors)
    if trial.reason:
        return trial.reason
    origin = Origin(base, cut.nodes, tuple(edits), tuple(kinds), trial.drops)
    return Region(trial.graph, origin, trial.free, trial.input_spans, trial.output_spans)


def _content(tensor: torch.Tensor) -> bytes:
    return to_numpy(tensor).tobytes()


def _given(tensor: torch.Tensor) -> ValueStatistics | None:
    span = statistics_of(tensor, exact=False)
    return span if span is not None and span.varies else None


#: The error of an operator for operands that do not go together.
_SHAPES: Final = re.compile(r"shape|size|dimension|dim |broadcast|stride|elements|length|match", re.IGNORECASE)
_DTYPES: Final = re.compile(r"dtype|scalar type|data type|not implemented for|type Float|type Long|type Int|promot")


def _signature(op: str, error: Exception) -> str:
    """Returns a short reason, the same for all failures of one kind."""
    text = str(error)
    if isinstance(error, UnknownOperator):
        kind = "unknown"
    elif "alloc" in text and "memory" in text:
        return "too big"
    elif isinstance(error, IndexError) or "out of range" in text or "out of bounds" in text:
        kind = "index"
    elif _DTYPES.search(text):
        kind = "dtype"
    elif _SHAPES.search(text):
        kind = "shape"
    else:
        kind = f"raises: {type(error).__name__}"
    return f"{kind}: {_packet(op)}" if kind[:6] != "raises" else f"{kind} {_packet(op)}"


def _packet(op: str) -> str:
    return op.rsplit(".", 1)[0]


@contextmanager
def _alone() -> Generator[None]:
    """Runs without gradients, on one thread, and with a limit on memory where the system supports it."""
    threads = torch.get_num_threads()
    if threads != 1:
        torch.set_num_threads(1)
    try:
        with torch.no_grad(), bounded(ROOM):
            yield
    finally:
        if threads != 1:
            torch.set_num_threads(threads)
