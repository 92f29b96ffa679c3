"""Runs one job on an opened platform in this process. A worker is a loop around `run_job`.

What the platform does wrong becomes an `Outcome`; bad input (a stored tensor that is not there)
raises `MindgapError`.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np
import xxhash

from mindgap.graph import (
    DTYPES,
    Graph,
    GraphError,
    Recipe,
    TensorSpec,
    TensorStore,
    UnknownOperator,
    materialise,
)
from mindgap.graph.cache import Cache
from mindgap.graph.compare.digest import Digested, digest_array, digest_bytes, digested
from mindgap.graph.compare.reason import Reason
from mindgap.platforms.delegation import delegation_of, require_taken
from mindgap.platforms.messages import missing_program
from mindgap.platforms.protocol import (
    DECLARED,
    CompileFailure,
    DeviceLost,
    DigestsValues,
    Executable,
    Fallback,
    Platform,
    RunFailure,
    Traceable,
    Unsupported,
)
from mindgap.run.failure_signature import signature
from mindgap.run.identity import digest_of
from mindgap.run.message_cleaning import shortened_paths
from mindgap.run.outcome import Array, Job, Outcome, Status, check_job

#: Called before each stage of a graph that is not loaded yet: `loading`, then `running`.
OnStage = Callable[[str], None]

_GRAPH_DTYPES: Final = frozenset(numpy for _, numpy in DTYPES.values())
#: Texts by which the frameworks report that memory has run out.
_OUT_OF_MEMORY: Final = (
    "defaultcpuallocator: can't allocate memory",
    "defaultcpuallocator: not enough memory",
    "out of memory",
    "std::bad_alloc",
    "failed to allocate memory",
    "cannot allocate memory",
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A loaded graph, or the error that loading it raised.

    `inputs`: all inputs as the recipes make them; None until all were made. `fresh`: the graph has not run yet.
    """

    executable: Executable | Exception
    inputs: list[Array] | None
    fresh: bool = False


@dataclass
class Caches:
    """Caches across jobs: loaded graphs by digest and replaced inputs, input arrays by recipe and spec."""

    graphs: Cache[tuple[str, str], Loaded] = field(default_factory=lambda: Cache(256, 1 << 30))
    inputs: Cache[tuple[Recipe, TensorSpec], Array] = field(default_factory=lambda: Cache(4096, 1 << 29))

    def clear(self) -> None:
        self.graphs.clear()
        self.inputs.clear()


class _ContractBroken(Exception):
    """The platform broke its contract: it returned no valid outputs, or overwrote an input."""


def run_job(
    platform: Platform,
    job: Job,
    *,
    tensors: TensorStore | None = None,
    caches: Caches | None = None,
    fingerprint: str = "",
    on_stage: OnStage = lambda stage: None,
) -> Outcome:
    """Runs the job on the platform. `caches` must belong to this platform alone.

    Raises `MindgapError` for an invalid job and for an input that cannot be made.
    """
    check_job(job)
    clock = time.perf_counter()
    caches = Caches() if caches is None else caches
    timings: dict[str, float] = {}
    digest = digest_of(job.graph)
    key = key_of(job)
    loaded = caches.graphs.get(key)
    made = loaded.inputs if loaded is not None else None
    inputs = make_inputs(job, tensors, caches) if made is None else _replace(made, job.inputs)
    try:
        fresh = loaded is None or loaded.fresh
        executable = _load(platform, job, inputs, timings, on_stage) if loaded is None else loaded.executable
        if isinstance(executable, Exception):
            raise executable
        results = _run(executable, job, inputs, timings, first_time=fresh)
        if made is None or fresh:
            made = None if job.inputs else inputs
            caches.graphs.put(key, Loaded(executable, made), sum(a.nbytes for a in inputs))
    except (KeyboardInterrupt, GeneratorExit, DeviceLost):
        raise
    except BaseException as error:  # SystemExit too: a library that calls sys.exit() ends its job only
        results = failure(error)
        if not isinstance(error, (Unsupported, UnknownOperator, CompileFailure, Fallback)):
            # An untyped failure may have left damaged state, which the next job must not meet. Graphs that were
            # loaded together stay: loading each of them again costs more than loading all did.
            caches.graphs.drop(key) if loaded is not None and loaded.fresh else caches.clear()
    timings["total"] = time.perf_counter() - clock
    return Outcome(job.platform, digest, timings=timings, fingerprint=fingerprint, **results)


def key_of(job: Job) -> tuple[str, str]:
    """Returns what a loaded graph depends on: the graph, and the replaced inputs that a platform may fold into it."""
    return digest_of(job.graph), _replaced(job)


def _replace(made: list[Array], sent: Mapping[int, Array]) -> list[Array]:
    return [sent.get(i, a) for i, a in enumerate(made)] if sent else made


def make_inputs(job: Job, tensors: TensorStore | None, caches: Caches) -> list[Array]:
    """Returns every input of the job's graph: sent with it, or made by its recipe and cached. Raises `GraphError`."""
    arrays: list[Array] = []
    for index, given in enumerate(job.graph.inputs):
        sent = job.inputs.get(index)
        if sent is not None:
            arrays.append(sent)
            continue
        key = (given.recipe, given.spec)
        array = caches.inputs.get(key)
        if array is None:
            try:
                array = materialise(given, tensors)
            except GraphError as error:
                raise GraphError(f"input {index}: {error}") from None
            caches.inputs.put(key, array, array.nbytes)
        arrays.append(array)
    return arrays


def fingerprint_of(description: Mapping[str, Any]) -> str:
    """Returns 128 bits of a digest of the description: equal for equal hardware, versions and settings."""
    machine = {key: value for key, value in description.items() if key not in DECLARED}
    text = json.dumps(machine, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def failure(error: BaseException) -> dict[str, Any]:
    """Returns the outcome's fields for an error of a platform: status, message, signature, operator."""
    op: str | None = None
    status: Status = "runtime_error"
    message = f"{type(error).__name__}: {error}"
    if isinstance(error, (Unsupported, UnknownOperator)):
        status, op, message = "unsupported", error.op, str(error)
    elif isinstance(error, CompileFailure):
        status, op, message = "compile_error", error.op or None, str(error)
    elif isinstance(error, RunFailure):
        op, message = error.op or None, str(error)
    elif isinstance(error, Fallback):
        message = f"fell back: {error}"
    elif isinstance(error, _ContractBroken):
        message = str(error)
    if program := missing_program(error):
        status, op, message = "unsupported", None, f"not available: the program {program} is not on the PATH"
    if status != "unsupported" and (isinstance(error, MemoryError) or _is_out_of_memory(message)):
        status = "oom"
    # Not part of the signature: the same operator is refused in many graphs.
    also = f"; likewise {', '.join(error.also)}" if isinstance(error, Unsupported) and error.also else ""
    text = shortened_paths(message) + also
    fallback = error.fallback if isinstance(error, Unsupported) else None
    reason = Reason(fallback) if fallback else None
    return {"status": status, "op": op, "message": text, "signature": signature(message), "reason": reason}


def _is_out_of_memory(message: str) -> bool:
    lowered = message.lower()
    return any(words in lowered for words in _OUT_OF_MEMORY)


def _replaced(job: Job) -> str:
    """Returns a key of the replaced inputs that a platform may fold into a loaded graph."""
    folded = [i for i in sorted(job.inputs) if job.graph.inputs[i].role not in ("input", "random")]
    return ",".join(f"{i}:{digest_array(job.inputs[i])}" for i in folded)


def _load(
    platform: Platform, job: Job, inputs: Sequence[Array], timings: dict[str, float], on_stage: OnStage
) -> Executable:
    on_stage("loading")
    clock = time.perf_counter()
    executable = platform.load(job.graph, inputs)
    timings["load"] = time.perf_counter() - clock
    on_stage("running")
    return executable


def _run(
    executable: Executable, job: Job, inputs: list[Array], timings: dict[str, float], *, first_time: bool
) -> dict[str, Any]:
    """Runs the graph and returns the outcome's fields. Raises the platform's errors, `Unsupported` where a delegate ran
    no operator, or `_ContractBroken`."""
    before = [_checksum(a) for a in inputs] if first_time else []
    clock = time.perf_counter()
    outputs = _checked(executable(inputs), job.graph)
    timings["run"] = time.perf_counter() - clock
    if first_time:
        # A platform that writes its inputs does so the first time; later runs need not pay for looking.
        _check_untouched(job.graph, inputs, before)
    taken = tuple(digested(a) for a in outputs)
    # An executable may hand out the same buffers again, so what is kept is copied before the next run.
    small = job.want == "digests" and sum(a.nbytes for a in outputs) <= job.attach_up_to
    first = tuple(a.copy() for a in outputs) if small or job.want in ("outputs", "trace") else None
    counts = Counter([" ".join(d.digest for d in taken)])
    repeats, differing = _repeat(executable, job, inputs, taken, first, timings, counts)
    facts = _facts(executable)
    require_taken(delegation_of(facts))
    fields: dict[str, Any] = {"status": "ok", "facts": facts}
    if job.want == "counts":
        fields["counts"] = dict(counts)
    elif job.want == "trace" and isinstance(executable, Traceable):
        fields["values"] = _traced(executable, inputs, job.values)
    elif job.want == "value_digests" and not job.graph.grad and isinstance(executable, DigestsValues):
        observed, digests = executable.digest_values(inputs)
        fields["value_digests"] = tuple(digests)
        fields["observed"] = tuple(digest_array(a) for a in _checked(observed, job.graph))
    elif job.want == "value_digests" and not job.graph.grad and isinstance(executable, Traceable):
        values = _traced(executable, inputs, None)
        fields["value_digests"] = tuple(None if value is None else digest_bytes(value) for value in values)
    if differing:
        message = f"a later run gave other outputs than the first: outputs {', '.join(map(str, sorted(differing)))}"
        fields |= {"status": "nondeterministic", "message": message, "signature": signature(message)}
    return {**fields, "outputs": taken, "arrays": first, "repeats": repeats}


def _traced(executable: Traceable, inputs: list[Array], numbers: Sequence[int] | None) -> tuple[Array | None, ...]:
    """Returns the values of nodes, C-contiguous: `numbers`, or all."""
    values = executable.trace(inputs, numbers)
    return tuple(None if value is None else np.asarray(value, order="C") for value in values)


def _facts(executable: Executable) -> Mapping[str, Any]:
    """Returns the facts that the executable reports of its translation, as JSON; empty without any."""
    facts: Any = getattr(executable, "facts", None)
    if not facts or not isinstance(facts, Mapping):
        return {}
    return json.loads(json.dumps(dict(cast("Mapping[str, Any]", facts)), default=str))


def _repeat(
    executable: Executable,
    job: Job,
    inputs: Sequence[Array],
    found: Sequence[Digested],
    first: tuple[Array, ...] | None,
    timings: dict[str, float],
    counts: Counter[str],
) -> tuple[tuple[tuple[Array, ...], ...], set[int]]:
    """Does runs 2 to `repeat`. Returns all runs' outputs (if wanted and any differs), and which outputs differ.

    Adds each run's digests, joined, to `counts`. Where there are several later runs, `median_run` is their median time.
    """
    runs: list[tuple[Array, ...]] = [] if first is None else [first]
    differing: set[int] = set()
    later: list[float] = []
    for number in range(2, job.repeat + 1):
        clock = time.perf_counter()
        outputs = _checked(executable(inputs), job.graph)
        later.append(time.perf_counter() - clock)
        if number == 2:
            timings["second_run"] = later[0]
        digests = [digest_array(a) for a in outputs]
        counts[" ".join(digests)] += 1
        differing |= {i for i, digest in enumerate(digests) if digest != found[i].digest}
        if first is not None:
            same = [digest == f.digest for digest, f in zip(digests, found, strict=True)]
            runs.append(tuple(f if s else a.copy() for f, a, s in zip(first, outputs, same, strict=True)))
    if len(later) > 1:
        timings["median_run"] = statistics.median(later)
    return (tuple(runs) if differing and first is not None else ()), differing


def _checked(outputs: Sequence[Any], graph: Graph) -> list[Array]:
    """Returns the outputs as C-contiguous arrays of dtypes that graphs hold. Does not compare shapes or dtypes."""
    expected = len(graph.outputs) + len(graph.grad)
    if len(outputs) != expected:
        raise _ContractBroken(f"the platform returned {len(outputs)} outputs where the graph has {expected}")
    arrays: list[Array] = []
    for index, output in enumerate(outputs):
        # numpy turns zero-dimensional results into scalars on the slightest occasion.
        if not isinstance(output, (np.ndarray, np.generic)):
            raise _ContractBroken(f"output {index} of the platform is a {type(output).__name__}, not an array")
        array: Array = np.asarray(cast("Any", output))
        if array.dtype not in _GRAPH_DTYPES:
            raise _ContractBroken(
                f"output {index} of the platform has the dtype {array.dtype}, which graphs do not hold"
            )
        arrays.append(array if array.flags.c_contiguous else np.ascontiguousarray(array).reshape(array.shape))
    return arrays


def _checksum(array: Array) -> int:
    flat = array if array.flags.c_contiguous else np.ascontiguousarray(array)
    return xxhash.xxh3_64_intdigest(flat.reshape(-1).view(np.uint8).data)


def _check_untouched(graph: Graph, inputs: Sequence[Array], before: Sequence[int]) -> None:
    for index, (array, was) in enumerate(zip(inputs, before, strict=True)):
        if _checksum(array) != was:
            label = graph.labels.inputs[index] if graph.labels.inputs else "no name"
            raise _ContractBroken(f"the platform wrote to its input {index} ({label})")
