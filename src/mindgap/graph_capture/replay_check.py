"""Checks a capture: runs the graph and the program on two inputs and compares them bit for bit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch

from mindgap.aten.operators import overload_name
from mindgap.aten.tape import OnNode, Tape
from mindgap.aten.tensors import to_numpy, to_torch, torch_dtype_name
from mindgap.aten.torch_private.fake_tensors import FakeTensor, lazy_clone
from mindgap.aten.torch_private.pre_dispatch import (
    PreDispatchMode,
    call_without_python_dispatcher,
    run_under_pre_dispatch,
)
from mindgap.graph import Graph, Node, Recipe, Role, TensorSpec
from mindgap.graph.compare.digest import digest_array
from mindgap.graph.decisions import outcome_of
from mindgap.graph.materialisation import materialise
from mindgap.graph.operators import traits
from mindgap.graph_capture import random_operators
from mindgap.graph_capture.control_flow import answered
from mindgap.graph_capture.data_dependent import READS
from mindgap.graph_capture.deep_copies import is_strided
from mindgap.graph_capture.errors import CaptureError, ReplayDiffers
from mindgap.graph_capture.kept_fakes import forget_fakes
from mindgap.graph_capture.origin import user_line_of
from mindgap.graph_capture.program import HeldTensor, ProgramCopy, copy_program, leaves
from mindgap.graph_capture.recorder import compares_whole
from mindgap.graph_capture.recording import RecordedInput
from mindgap.graph_capture.redraw import CHANGES, dense, input_demands, is_real, own_copy, redraw
from mindgap.run.message_cleaning import one_line

_log = logging.getLogger(__name__)

#: Which arguments a run has, for messages.
GIVEN: Final = "the given arguments"
OTHERS: Final = "other arguments of the same kind"
#: Further runs of a program that gives other bits each time.
_AGAIN: Final = 12
_ROUNDING: Final = 2**10  #: Units in the last place of the largest element by which runs of one program may differ.
#: Elements from which a parameter is not copied before it must be.
_BIG = 1 << 14


@dataclass(frozen=True)
class PreparedRun:
    """A copy of the program with other tensors, ready to run.

    `held`: original and replacement of each tensor; `made`: inputs of the graph that are no tensors of the program, by
    name; `pool`: the drawn tensors in order.
    """

    copied: ProgramCopy
    held: Sequence[tuple[HeldTensor, torch.Tensor]]
    made: Mapping[str, torch.Tensor]
    pool: Sequence[torch.Tensor]


#: Runs a program as it was captured: the tensors that the graph returns, but for those that it writes to.
Run = Callable[[PreparedRun], Sequence[torch.Tensor]]


def run_calls(ready: PreparedRun, reads: Sequence[Any] | None = None) -> list[torch.Tensor]:
    """Runs the program with the random numbers of the graph. `reads`: what Python code was given for tensors when the
    program was captured, which it is given again, so that it takes the same path."""
    given = None if reads is None else _RecordedReads(reads)
    with ExitStack() as stack:
        if given is not None:
            stack.enter_context(answered(given.next))
        if ready.pool or given is not None:
            stack.enter_context(run_under_pre_dispatch(_CallReplayMode(ready.pool, given)))
        result = ready.copied.program(*ready.copied.args, **ready.copied.kwargs)
    return [leaf for _, leaf in leaves(result) if isinstance(leaf, torch.Tensor)]


@dataclass(frozen=True)
class CheckSubject:
    """A graph and the program to check it against. `returned`: how many of the outputs the program returns."""

    graph: Graph
    sources: Sequence[RecordedInput]
    returned: int
    program: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    run: Run = run_calls

    @property
    def results(self) -> int:
        """How many of the outputs the program returns or writes to; those behind them are decisions."""
        return len(self.graph.outputs) - len(self.graph.labels.decisions)


#: Whether a graph that was traced is to be proven, which costs four runs of the program and more.
Verify = bool | Callable[[Graph], bool]


def checked(subject: CheckSubject, verify: Verify) -> tuple[Graph, str]:
    """Returns the graph after `check`, and "". Where the check is skipped: the graph as it is, and the reason."""
    if any(s.real is not None and s.real.device.type == "meta" for s in subject.sources):
        return subject.graph, "captured from meta tensors: there is nothing to replay, so it is not proven"
    if verify is True or (callable(verify) and verify(subject.graph)):
        return check(subject)
    return subject.graph, "verify=False: the capture was not replayed, so it is not proven"


def check(subject: CheckSubject) -> tuple[Graph, str]:
    """Returns the checked graph, with the dtypes that the kernels gave (fake tensors keep statistics of bfloat16 in
    float32), and why it was not checked on other arguments, or "".

    Raises `CaptureError` with the first output on which graph and program differ.
    """
    graph, sources = subject.graph, subject.sources
    tape = Tape(graph)
    drawn = [_materialised(graph, i) if s.real is None else None for i, s in enumerate(sources)]
    given = [_lazy_copy(s.real, s.role) if s.real is not None else d for s, d in zip(sources, drawn, strict=True)]
    tensors = [t for t in given if t is not None]
    given_dtypes: dict[int, Node] = {}

    def note(index: int, results: list[torch.Tensor | None]) -> None:
        node = graph.nodes[index]
        outputs = tuple(_of_dtype(spec, real) for spec, real in zip(node.outputs, results, strict=True))
        if outputs != node.outputs:
            given_dtypes[index] = replace(node, outputs=outputs)

    try:
        _compare_runs(subject, tape, tensors, GIVEN, note)
    except _InvalidInputs as error:
        raise CaptureError(f"the program was traced, but fails when it runs for real ({error})", error.line) from error
    unproven = _compare_others(subject, tape, tensors)
    if given_dtypes:
        graph = replace(graph, nodes=tuple(given_dtypes.get(i, node) for i, node in enumerate(graph.nodes)))
    return graph, unproven


def _compare_others(subject: CheckSubject, tape: Tape, tensors: list[torch.Tensor]) -> str:
    """Compares graph and program on other arguments. Returns "", or why there are none on which they can be compared.

    Where the program refuses some, others are drawn that are nearer to the given ones. Raises `CaptureError` if it
    refuses all, and where graph and program differ.
    """
    demanded = input_demands(subject.graph)
    refused: _InvalidInputs | None = None
    sized = any(each.kind in ("count", "size") for each in subject.graph.labels.decisions)
    for change in CHANGES:
        other = redraw(tensors, subject.sources, change, demanded)
        try:
            _compare_runs(subject, tape, other, OTHERS)
            return ""
        except _InvalidInputs as error:
            # Shuffled integers need not be valid (offsets, lengths), nor drawn floats (what a matrix of them is made
            # of); sizes need not be those that the graph holds.
            _log.info("the second input of the check changes %s no more: %s", change, error)
            refused = error
    assert refused is not None, "it was compared or refused"
    if sized:
        return f"sizes depend on its data, and other arguments give others ({refused}): only the given ones prove it"
    raise CaptureError(
        f"the program refuses other values for its arguments ({refused}), so that the capture cannot be proven",
        refused.line,
    ) from refused


def _of_dtype(spec: TensorSpec | None, real: torch.Tensor | None) -> TensorSpec | None:
    return None if spec is None else spec if real is None else replace(spec, dtype=torch_dtype_name(real.dtype))


class _InvalidInputs(Exception):
    """The program itself failed on these inputs."""

    def __init__(self, message: str, line: str) -> None:
        super().__init__(message)
        self.line = line


def _lazy_copy(tensor: torch.Tensor, role: Role) -> torch.Tensor:
    """Copies as `own_copy` does. The memory of a large parameter is copied only if it is written to, which is
    rare."""
    if role != "parameter" or tensor.numel() < _BIG or not dense(tensor):
        return own_copy(tensor)
    return lazy_clone(tensor.detach())


def _materialised(graph: Graph, index: int) -> torch.Tensor:
    one = graph.inputs[index]
    return to_torch(materialise(one), one.spec)


def _compare_runs(
    subject: CheckSubject, tape: Tape, tensors: list[torch.Tensor], which: str, on_node: OnNode | None = None
) -> None:
    expected, left = _program_outputs(subject, tensors)
    decisions = subject.graph.labels.decisions
    try:
        actual = tape.run(tensors, on_node)
    except Exception as error:
        message = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if which == OTHERS and any(each.kind in ("count", "size") for each in decisions):
            raise _InvalidInputs(message, "") from error
        raise CaptureError(f"the program runs on {which}, but the graph of it does not: {message}") from error
    for each in decisions:
        came = outcome_of(each.kind, to_numpy(actual[each.output]))
        if came != each.taken and which == GIVEN:
            raise CaptureError(f"`{each.text}` is {came} when the graph is replayed, and was {each.taken}", each.line)
        if came != each.taken and each.kind in ("count", "size"):
            raise _InvalidInputs(f"`{each.text}` gives another size", each.line)
    names = subject.graph.labels.outputs[: subject.results]
    if len(expected) != subject.returned:
        raise CaptureError(f"the program returned {len(expected)} tensors, {subject.returned} when it was captured")
    whole = [*expected, *left.written]
    differing = _first_difference(names, whole, actual[: len(names)])
    if differing and not _agrees_again(subject, tape, tensors, names, whole, actual[: len(names)]):
        raise ReplayDiffers(differing, which)
    for name in left.unexpected:
        raise CaptureError(f"the program writes to {name} in a way that the capture does not see")


def _first_difference(names: Sequence[str], expected: Sequence[torch.Tensor], actual: Sequence[torch.Tensor]) -> str:
    """Returns the name of the first output that differs, or ""."""
    pairs = zip(names, expected, actual, strict=True)
    return next((name for name, one, other in pairs if not same_bits(one, other)), "")


def _agrees_again(
    subject: CheckSubject, tape: Tape, tensors: list[torch.Tensor], names: Sequence[str],
    expected: Sequence[torch.Tensor], actual: Sequence[torch.Tensor],
) -> bool:  # fmt: skip
    """Whether some further run of graph and program gives the same bits on both sides, where one of them gives others
    each time: the results of LAPACK and of some matrix products depend on where in memory their operands are.

    Without LAPACK runs differ by rounding only, unless the program depends on something that is no input.
    """
    any_size = any(traits(node.op).family == "linear_algebra" for node in subject.graph.nodes)
    programs, graphs = [expected], [actual]
    for _ in range(_AGAIN):
        outputs, left = _program_outputs(subject, tensors)
        programs.append([*outputs, *left.written])
        graphs.append(tape.run(tensors)[: len(names)])
        if not _first_difference(names, programs[0], programs[-1]) and not _first_difference(names, actual, graphs[-1]):
            return False
        if not any_size and not _within_rounding(programs[0], programs[-1]):
            return False
        if any(not _first_difference(names, one, other) for one in programs for other in graphs):
            return True
    return False


def _within_rounding(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    """Whether all elements of float outputs are nearly equal, relative to the largest, and other outputs equal."""

    def near(a: torch.Tensor, b: torch.Tensor) -> bool:
        if a.shape != b.shape or a.dtype != b.dtype or not (a.is_floating_point() or a.is_complex()):
            return False
        limit = _ROUNDING * torch.finfo(a.dtype).eps * float(a.abs().nan_to_num(0.0, 0.0).max())
        return torch.allclose(a, b, rtol=0.0, atol=limit, equal_nan=True)

    return all(same_bits(a, b) or near(a, b) for a, b in zip(one, other, strict=True))


@dataclass
class _StateAfterRun:
    """State of the inputs after a run: those that the graph declares as written, and others that changed."""

    written: list[torch.Tensor] = field(default_factory=list[torch.Tensor])
    unexpected: list[str] = field(default_factory=list[str])


def _program_outputs(subject: CheckSubject, tensors: list[torch.Tensor]) -> tuple[list[torch.Tensor], _StateAfterRun]:
    """Runs the program with `tensors` in place of the program's; returns its outputs and the state of the inputs
    afterwards. Where its code kept fake tensors of the trace (a cache), removes them and runs it again."""
    try:
        return _outputs_of_run(subject, tensors)
    except _InvalidInputs:
        if not forget_fakes():
            raise
        return _outputs_of_run(subject, tensors)


def _outputs_of_run(subject: CheckSubject, tensors: list[torch.Tensor]) -> tuple[list[torch.Tensor], _StateAfterRun]:
    sources = subject.sources
    by_name = {(s.role, s.name): (i, t) for i, (s, t) in enumerate(zip(sources, tensors, strict=True))}
    placed = {i: own_copy(tensors[i]) for i, s in enumerate(sources) if s.real is None and s.role != "random"}
    made = {sources[i].name: t for i, t in placed.items()}
    taken: list[tuple[HeldTensor, torch.Tensor]] = []
    originals: list[tuple[torch.Tensor, torch.Tensor]] = []

    def swap(held: HeldTensor) -> torch.Tensor:
        known = by_name.get((held.role, held.name))
        if held.role == "buffer" and not is_strided(held.tensor):
            return held.tensor  # which the graph does not read
        if held.role == "constant":
            # The very tensor: Python may write to its memory by another name, which a copy would not show.
            copied = held.tensor
            originals.append((copied, own_copy(copied)))
        else:
            copied = _lazy_copy(held.tensor if known is None else known[1], held.role)
        if isinstance(held.tensor, torch.nn.Parameter):
            copied = torch.nn.Parameter(copied, requires_grad=False)
        if known is not None:
            placed[known[0]] = copied
        taken.append((held, copied))
        return copied

    program_copy = copy_program(subject.program, subject.args, subject.kwargs, swap)
    originals += [(s.real, own_copy(s.real)) for i, s in enumerate(sources) if s.real is not None and i not in placed]
    pool = [t for s, t in zip(sources, tensors, strict=True) if s.role == "random"]
    try:
        outputs = [t.detach().clone() for t in _run_program(subject.run, PreparedRun(program_copy, taken, made, pool))]
        left = _StateAfterRun()
        declared = subject.graph.outputs[subject.returned : subject.results]
        after = {**placed, **{i: s.real for i, s in enumerate(sources) if s.real is not None and i not in placed}}
        left.written = [after[i].clone() for i in declared]
        left.unexpected = [
            sources[i].name for i, t in placed.items() if i not in declared and not same_bits(t, tensors[i])
        ]
        return outputs, left
    finally:
        for real, before in originals:
            if not same_bits(real, before):
                real.detach().copy_(before)


def _run_program(run: Run, ready: PreparedRun) -> Sequence[torch.Tensor]:
    try:
        outputs = run(ready)
    except CaptureError:
        raise
    except (Exception, SystemExit) as error:
        raise _InvalidInputs(one_line(error), user_line_of(error.__traceback__)) from error
    if any(isinstance(each, FakeTensor) for each in outputs):
        raise _InvalidInputs("its code keeps tensors from call to call; keep them as buffers of its modules", "")
    return outputs


class _RecordedReads:
    """Hands out what was read from tensors, in order."""

    def __init__(self, reads: Sequence[Any]) -> None:
        self._left = iter(reads)

    def next(self) -> Any:
        """Returns what is read next. Raises `CaptureError` where nothing was."""
        read = next(self._left, self)
        if read is self:
            raise CaptureError("the program reads other values than when it was captured")
        return read


class _CallReplayMode(PreDispatchMode):
    """Gives the program the drawn tensors of the graph, in order, for its random calls, and the recorded values where
    it reads tensors. Leaves other calls alone."""

    def __init__(self, pool: Sequence[torch.Tensor], reads: _RecordedReads | None = None) -> None:
        super().__init__()
        self._pool, self._reads = DrawnTensors(pool), reads

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._reads is not None and (overload_name(func) in READS or compares_whole(func, args)):
            return self._reads.next()
        if not random_operators.is_random(func, args, kwargs):
            return call_without_python_dispatcher(func, args, kwargs)
        return self._pool.lowered(func, args, kwargs, self)


class DrawnTensors:
    """Hands out drawn tensors in order."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self._left = iter(tensors)

    def lowered(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], mode: AbstractContextManager[Any]
    ) -> Any:
        """Returns the result of a random call, computed from the next drawn tensors under `mode`."""
        plain = {k: None if k == "generator" else v for k, v in kwargs.items()}
        like = func(*args, **plain) if random_operators.needs_result(func) else None
        with mode:
            return random_operators.lower(func, args, plain, like, self._next)

    def _next(self, make: Callable[[int], Recipe], shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        tensor = next(self._left, None)
        if tensor is None or tuple(tensor.shape) != shape or tensor.dtype != dtype:
            raise CaptureError("the program draws other random numbers than when it was captured")
        return tensor.clone()


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether dtype, shape and bytes are equal. Any NaN equals any NaN."""
    if one.dtype != other.dtype or one.shape != other.shape or one.is_meta != other.is_meta:
        return False
    if one.is_meta:  # the skeleton of a module whose weights are given at each call: it holds no values
        return True
    words = one.element_size() == 4 and dense(one) and dense(other)
    # Without a copy of either: parameters are many and big.
    if words and torch.equal(one.detach().view(torch.int32), other.detach().view(torch.int32)):
        return True
    a, b = to_numpy(one), to_numpy(other)
    return a.tobytes() == b.tobytes() or (is_real(one) and digest_array(a) == digest_array(b))
