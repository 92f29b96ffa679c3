"""Asks whether a model's answer to one example depends on its company: the size of the batch, the place in it, the
other examples, the threads, the process, the text that follows.

The model is captured at each batch size. The example is always the same; what changes is what lies beside it. Its part
of the outputs is compared bit by bit with the answer that it gets alone; at another position and beside other examples,
with the answer that it gets first in a batch of that size. Where bits differ, the oracle of the graph of one example
decides whether rounding explains it, and each operator runs alone at both sizes, on the same operands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from mindgap.graph import Array, Graph, MindgapError, TensorStore, default_tensor_store, materialise, materialise_all
from mindgap.graph.compare.digest import digest_array
from mindgap.judge.trace.metrics import row_metrics
from mindgap.judge.trace.side_values import reason_of
from mindgap.platforms.name import CPU_EAGER, PlatformName, parse
from mindgap.platforms.registry import canonical
from mindgap.run.outcome import Job, Outcome
from mindgap.run.pool import WorkerPool
from mindgap.workflows.diff.kernel_choice import KernelChoice, batch_axis, example_of, kernel_choices
from mindgap.workflows.diff.platform_facts import facts_of

if TYPE_CHECKING:
    from mindgap.judge.trace.judge import Judge

Question = Literal["repeat", "process", "threads", "batch size", "position", "neighbours", "length"]
#: - `identical`: the bits of the answer that it is compared with.
#: - `rounding`: other bits, and both answers are within rounding of the graph.
#: - `beyond`: further off than rounding of the graph leads, where the answer alone is not.
#: - `unjudged`: other bits; whether rounding explains them is not known.
#: - `not_run`: the platform refused or failed.
AnswerVerdict = Literal["identical", "rounding", "beyond", "unjudged", "not_run"]
#: What lies beside the example: itself again, zeros, or others: the example with its last dimension shifted, and floats
#: made larger, by another amount at each place.
Neighbours = Literal["others", "copies", "zeros"]

BATCHES: Final = (1, 2, 3, 4, 8, 16)
#: The batch in which position and neighbours change: the largest up to this size, or the smallest above it.
_COMPANY: Final = 8


@dataclass(frozen=True, slots=True)
class Condition:
    """In what company the example is asked.

    size: the number of examples in its batch, or of tokens in its text; 0 for the example alone.
    threads: 0 for what the platform's name says.
    fresh: in a process of its own.
    """

    question: Question
    label: str
    size: int = 0
    position: int = 0
    neighbours: Neighbours = "others"
    threads: int = 0
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the example under one condition.

    bits: the class of its bits; 0 is the class of the answer alone, and equal numbers are equal bits.
    max_abs, max_rel: the largest differences to the answer that it is compared with, over all outputs.
    detail: why it was not run, or is not judged.
    """

    condition: Condition
    verdict: AnswerVerdict
    bits: int = -1
    max_abs: float = 0.0
    max_rel: float = 0.0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Invariance:
    """What one platform answers to one example in all company that was tried.

    choices: the operators that by themselves give other bits in another batch; empty where none does, or nothing
        differs. notes: what was not compared, and why.
    """

    model: str
    platform: PlatformName
    answers: tuple[Answer, ...]
    choices: tuple[KernelChoice, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def questions(self) -> list[Question]:
        """The questions that were asked, in order."""
        asked: list[Question] = [answer.condition.question for answer in self.answers]
        return list(dict.fromkeys(asked))

    def of(self, question: Question) -> list[Answer]:
        """Returns the answers to one question."""
        return [each for each in self.answers if each.condition.question == question]


@dataclass(frozen=True)
class Asked:
    """The graphs of a model by batch size (or length of the text), and the operands of one example.

    graphs: by the number of examples (or tokens); they have the same operators in the same order. The smallest is that
        of the example alone.
    inputs: of the graph of the example alone, in its order.
    tensors: where the constants of the graphs are stored.
    """

    graphs: Mapping[int, Graph]
    inputs: Sequence[Array]
    tensors: TensorStore | None = None

    @property
    def least(self) -> int:
        """The size of the graph of the example alone."""
        return min(self.graphs)

    @property
    def alone(self) -> Graph:
        """The graph of the example alone."""
        return self.graphs[self.least]

    def given(self, condition: Condition) -> dict[int, Array]:
        """Returns the inputs of the condition's graph: the example and its company, and weights as alone. Constants are
        the graph's own.

        Raises `MindgapError` where an input has neither the shape that it has alone nor one with more examples.
        """
        graph, found = self.graphs[condition.size or self.least], dict[int, Array]()
        for number, (one, alone) in enumerate(zip(graph.inputs, self.inputs, strict=True)):
            spec = one.spec
            if one.role == "constant":
                found[number] = materialise(one, self.tensors)
                continue
            if spec.shape == alone.shape:
                found[number] = alone
            elif (axis := batch_axis(alone.shape, spec.shape)) is not None:
                found[number] = _company(alone, axis, spec.shape[axis] // alone.shape[axis], condition)
            else:
                raise MindgapError(f"input {number} is {list(alone.shape)} alone and {list(spec.shape)} in a batch")
        return found


def _company(alone: Array, axis: int, examples: int, condition: Condition) -> Array:
    parts: list[Array] = []
    for place in range(examples):
        if place == condition.position or condition.neighbours == "copies":
            parts.append(alone)
        elif condition.neighbours == "zeros":
            parts.append(np.zeros_like(alone))
        else:
            other = np.roll(alone, place + 1, -1 if alone.ndim > axis + 1 else axis)
            whole = alone.dtype.kind in "iub"
            parts.append(other if whole else (other * (1 + (place + 1) / 4)).astype(alone.dtype))
    return np.concatenate(parts, axis)


def conditions(batches: Sequence[int], threads: Sequence[int]) -> Iterator[Condition]:
    """Yields the conditions that are tried, in order; the first is the example alone, once more.

    `batches`: rising sizes, one of them above 1.
    """
    yield Condition("repeat", "again")
    yield Condition("process", "a new process", fresh=True)
    for count in threads:
        yield Condition("threads", str(count), threads=count, fresh=True)
    for size in batches:
        if size > 1:
            yield Condition("batch size", str(size), size)
    several = [size for size in batches if size > 1]
    company = max((size for size in several if size <= _COMPANY), default=min(several))
    for position in range(1, company) if company <= _COMPANY else (1, company // 2, company - 1):
        yield Condition("position", str(position), company, position)
    yield Condition("neighbours", "copies", company, neighbours="copies")
    yield Condition("neighbours", "zeros", company, neighbours="zeros")


def ask(
    graph_of: Callable[[int], Graph], platform: str, *, model: str = "model", batches: Sequence[int] = BATCHES,
    threads: Sequence[int] = (), text_of: Callable[[int], Graph] | None = None, lengths: Sequence[int] = (),
    tensors: TensorStore | None = None, deadline_s: float = 300.0,
) -> Invariance:  # fmt: skip
    """Asks one platform for the same example in different company.

    `graph_of`: captures the model with a number of examples in its batch. `batches`: how many are tried. `threads`:
    numbers of threads, for platforms with that option. `text_of`: captures it with a number of tokens; `lengths`: how
    many are tried, multiples of the smallest, whose answer is compared with that to the same first tokens of longer
    texts. Raises `MindgapError` where the platform is unknown or not
    available, where the model gives no graph, or does not run alone.
    """
    started = time.perf_counter()
    named = canonical(platform)
    facts_of([CPU_EAGER, named], reference=CPU_EAGER, skip_unavailable=False)
    tensors = tensors or default_tensor_store()
    notes: list[str] = []
    asked = _captured(graph_of, sorted({1, *batches}), "examples", tensors, notes)
    texts = None if text_of is None else _captured(text_of, sorted(lengths), "tokens", tensors, notes)
    answers: list[Answer] = []
    choices: list[KernelChoice] = []
    with WorkerPool([CPU_EAGER, named], tensors=tensors) as pool:
        for one, tried in (
            (asked, [*conditions(sorted(asked.graphs), threads)]),
            (texts, [] if texts is None else [Condition("length", str(n), n) for n in sorted(texts.graphs)[1:]]),
        ):
            if one is not None:
                run = _Run(one, named, pool, tensors, deadline_s, notes)
                found = [run.answer(each) for each in tried]
                answers += found
                choices += _choices(one, found, named, pool, deadline_s, notes)
    return Invariance(model, named, tuple(answers), tuple(choices), tuple(notes), time.perf_counter() - started)


def _choices(
    asked: Asked, answers: Sequence[Answer], platform: PlatformName, pool: WorkerPool, deadline_s: float,
    notes: list[str],
) -> list[KernelChoice]:  # fmt: skip
    """The operators that give other bits, at the first size that does."""
    differing = next((answer.condition for answer in answers if answer.bits > 0 and answer.condition.size), None)
    if differing is None:
        return []
    within = all(answer.verdict != "beyond" for answer in answers)
    given = asked.given(replace(differing, position=0))
    choices, why = kernel_choices(asked.graphs, given, differing.size, platform, pool.run, deadline_s, within)
    notes += [why] * bool(why)
    return choices


def _captured(
    graph_of: Callable[[int], Graph], sizes: Sequence[int], what: str, tensors: TensorStore, notes: list[str]
) -> Asked:  # fmt: skip
    """The graphs of all sizes with the operators of the smallest. A size that has others is left out, with a note."""
    graphs: dict[int, Graph] = {}
    for size in sizes:
        graph = graph_of(size)
        if graph.grad:
            raise MindgapError("it asks for gradients: the answer to one example has none of its own")
        ops = [node.op for node in graph.nodes]
        alone = graphs.get(sizes[0], graph)
        if ops != [node.op for node in alone.nodes] or len(graph.inputs) != len(alone.inputs):
            notes.append(f"with {size} {what} the model calls other operators than with {sizes[0]}: not compared")
            continue
        graphs[size] = graph
    if len(graphs) < 2:
        raise MindgapError(f"more {what} than {sizes[0]} make the model call other operators: nothing is compared")
    return Asked(graphs, materialise_all(graphs[sizes[0]], tensors), tensors)


@dataclass
class _Run:
    """Runs the conditions of one platform, and compares their answers with the first."""

    asked: Asked
    platform: PlatformName
    pool: WorkerPool
    tensors: TensorStore
    deadline_s: float
    notes: list[str]
    _classes: dict[tuple[str, ...], int] = field(default_factory=dict[tuple[str, ...], int])
    _beyond: dict[tuple[str, ...], bool] = field(default_factory=dict[tuple[str, ...], bool])
    _judge: Judge | None = None

    def __post_init__(self) -> None:
        alone = self._outcome(Condition("repeat", "alone"))
        if not alone.ran or alone.arrays is None:
            raise MindgapError(f"nothing is compared: {self.platform} gives {reason_of(alone)}")
        self._alone = alone.arrays
        self._specs = [self.asked.alone.values[number] for number in self.asked.alone.outputs]
        self._classes[_digests(self._alone)] = 0
        #: The answer that the example gets first in a batch, by its size.
        self._first = {self.asked.least: self._alone}
        largest = self.asked.graphs[max(self.asked.graphs)]
        shared = [
            position for position, (number, spec) in enumerate(zip(largest.outputs, self._specs, strict=True))
            if spec is None or (it := largest.values[number]) is None or batch_axis(spec.shape, it.shape) is None
        ]  # fmt: skip
        if len(shared) == len(self._specs):
            raise MindgapError("no output has a part for each example: there is no answer to one of them")
        self._own = [i for i in range(len(self._specs)) if i not in shared]
        if shared:
            numbers = ", ".join(map(str, shared))
            self.notes.append(f"outputs without a part for each example, not compared: {numbers}")

    def answer(self, condition: Condition) -> Answer:
        """Runs one condition."""
        try:
            outcome = self._outcome(condition)
        except MindgapError as error:
            return Answer(condition, "not_run", detail=str(error))
        if not outcome.ran or outcome.arrays is None:
            return Answer(condition, "not_run", detail=reason_of(outcome))
        company = condition.question in ("position", "neighbours")
        base = self._first.get(condition.size if company else self.asked.least, self._alone)
        try:
            runs = [self._parts(run, condition.position) for run in (outcome.arrays, *outcome.repeats)]
        except MindgapError as error:
            return Answer(condition, "not_run", detail=str(error))
        if condition.question == "batch size":
            self._first[condition.size] = runs[0]
        if outcome.status == "nondeterministic":
            self._note("runs in one process differ from each other")
        # Of repeated runs, the one that differs counts.
        parts = next((run for run in runs if _digests(run) != _digests(base)), runs[0])
        bits = self._classes.setdefault(_digests(parts), len(self._classes))
        if _digests(base) == _digests(parts):
            return Answer(condition, "identical", bits)
        metrics = row_metrics(parts, base, None)
        far = (float(metrics.get("max_abs") or 0.0), float(metrics.get("max_rel") or 0.0))
        return Answer(condition, self._judged(parts, base), bits, *far)

    def _parts(self, arrays: Sequence[Array], position: int) -> tuple[Array, ...]:
        """The example's part of outputs; of outputs without one, what it gets alone. Raises `MindgapError`."""
        parts = list(self._alone)
        for output in self._own:
            spec = self._specs[output]
            part = None if spec is None else example_of(arrays[output], spec, position)
            if part is None or part.dtype != self._alone[output].dtype:
                raise MindgapError(f"output {output} has another shape or dtype there")
            parts[output] = part
        return tuple(parts)

    def _judged(self, parts: Sequence[Array], base: Sequence[Array]) -> AnswerVerdict:
        """Whether rounding explains why two answers differ: each of them is within rounding of the graph."""
        from mindgap.judge.oracle import OracleError

        try:
            if self._is_beyond(self._alone):
                self._note(
                    "the answer alone is further off than rounding of the declared dtypes leads (mindgap diff says "
                    "why):  other bits are not judged"
                )
                return "unjudged"
            return "beyond" if self._is_beyond(parts) or self._is_beyond(base) else "rounding"
        except (OracleError, MindgapError) as error:
            self._note(f"other bits are not judged: {error}")
            return "unjudged"

    def _is_beyond(self, answer: Sequence[Array]) -> bool:
        key = _digests(answer)
        if key not in self._beyond:
            self._beyond[key] = any(self._the_judge().beyond_rounding(answer))
        return self._beyond[key]

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _the_judge(self) -> Judge:
        if self._judge is None:
            from mindgap.judge.trace.judge import Judge
            from mindgap.platforms.protocol import ACCURACY

            accuracy = str(self.pool.describe(self.platform).get(ACCURACY, ""))
            self._judge = Judge(self.asked.alone, self.asked.inputs, self.pool.run, CPU_EAGER, accuracy=accuracy)
        return self._judge

    def _outcome(self, condition: Condition) -> Outcome:
        name = self.platform
        if condition.threads:
            if "threads" in name.options:
                raise MindgapError(f"{name} names its threads already")
            name = canonical(parse(name).with_options(threads=str(condition.threads)))
        graph = self.asked.graphs[condition.size or self.asked.least]
        job = Job(name, graph, want="outputs", deadline_s=self.deadline_s, inputs=self.asked.given(condition))
        if not condition.fresh:
            return self.pool.run(replace(job, repeat=2))
        with WorkerPool([name], tensors=self.tensors, forks=False) as pool:
            return pool.run(job)


def _digests(arrays: Sequence[Array]) -> tuple[str, ...]:
    return tuple(digest_array(array) for array in arrays)
