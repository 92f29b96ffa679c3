"""Asks whether a model's answer to one example depends on its company: the size of the batch, the place in it, the
other examples, the threads, the process, the text that follows.

The model is captured at each batch size. The example is always the same; what changes is what runs with it. Its part
of the outputs is compared bit by bit with the answer that it gets alone; at another position and with other examples,
with the answer that it gets first in a batch of that size. Where bits differ, the oracle of the graph of one example
decides whether rounding explains it, and each operator runs alone at both sizes, on the same operands.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from mindgap.graph import Array, Graph, MindgapError, TensorStore, default_tensor_store, materialise, materialise_all
from mindgap.judge.trace.side_values import reason_of
from mindgap.platforms.name import CPU_EAGER, PlatformName, parse
from mindgap.platforms.registry import canonical
from mindgap.run.outcome import Job, Outcome
from mindgap.run.pool import WorkerPool
from mindgap.source_worker.client import GeneratedText
from mindgap.workflows.diff.platform_facts import facts_of
from mindgap_surveys.decoding.answer_judge import Answer, AnswerJudge, Condition, Question, digests
from mindgap_surveys.decoding.decoding import Decoded, Decoding, Divergence
from mindgap_surveys.decoding.kernel_choice import KernelChoice, batch_axis, example_of, kernel_choices, kernel_map

BATCHES: Final = (1, 2, 3, 4, 8, 16)
#: The batch in which position and neighbours change: the largest up to this size, or the smallest above it.
_COMPANY: Final = 8


@dataclass(frozen=True, slots=True)
class Invariance:
    """What one platform answers to one example in all company that was tried.

    choices: the operators that by themselves give other bits in another batch; empty where none does, or nothing
        differs.
    kernels: where requested, which sizes share bits, for each operator whose kernel depends on shapes.
    divergences: how the platform parts from eager mode while both decode a text.
    notes: what was not compared, and why.
    """

    model: str
    platform: PlatformName
    answers: tuple[Answer, ...]
    choices: tuple[KernelChoice, ...] = ()
    kernels: tuple[KernelChoice, ...] = ()
    divergences: tuple[Divergence, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    def of(self, question: Question) -> list[Answer]:
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
        return min(self.graphs)

    @property
    def alone(self) -> Graph:
        return self.graphs[self.least]

    def given(self, condition: Condition) -> dict[int, Array]:
        """Returns the inputs of the condition's graph: the example and its company, and weights as alone. Constants are
        the graph's own.

        Raises `MindgapError` where an input has neither the shape that it has alone nor one with more examples.
        """
        graph, arrays = self.graphs[condition.size or self.least], dict[int, Array]()
        for number, (one, alone) in enumerate(zip(graph.inputs, self.inputs, strict=True)):
            spec = one.spec
            if one.role == "constant":
                arrays[number] = materialise(one, self.tensors)
                continue
            if spec.shape == alone.shape:
                arrays[number] = alone
            elif (axis := batch_axis(alone.shape, spec.shape)) is not None:
                arrays[number] = _company(alone, axis, spec.shape[axis] // alone.shape[axis], condition)
            else:
                raise MindgapError(f"input {number} is {list(alone.shape)} alone and {list(spec.shape)} in a batch")
        return arrays


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
    yield Condition("process", "beside another process", beside=True)
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
    kernels: bool = False, decoding: Decoding | None = None, texts: Sequence[GeneratedText] = (),
    tensors: TensorStore | None = None, deadline_s: float = 300.0, notes: Sequence[str] = (),
) -> Invariance:  # fmt: skip
    """Asks one platform for the same example in different company.

    graph_of: captures the model with a number of examples in its batch. batches: how many are tried.
    threads: numbers of threads, for platforms with that option.
    text_of: captures it with a number of tokens. lengths: how many are tried, multiples of the smallest, whose answer
        is compared with that to the same first tokens of longer texts.
    kernels: also map which sizes share bits, by operator.
    decoding: a text that is decoded in several ways. texts: what `generate` gave on the platform.
    notes: what is known before.
    What does not run in other company is an answer with that verdict. Raises `MindgapError` where the platform is
    unknown or not available, where the model gives no graph, or does not run alone.
    """
    started = time.perf_counter()
    named = canonical(platform)
    facts_of([CPU_EAGER, named], reference=CPU_EAGER, skip_unavailable=False)
    tensors = tensors or default_tensor_store()
    notes = [*notes]
    captured = _captured(graph_of, sorted({1, *batches}), "examples", tensors, notes)
    longer = None if text_of is None else _captured(text_of, sorted(lengths), "tokens", tensors, notes)
    answers: list[Answer] = []
    choices: list[KernelChoice] = []
    with WorkerPool([CPU_EAGER, named], tensors=tensors) as pool:
        for one, tried in (
            (captured, [*conditions(sorted(captured.graphs), threads)]),
            (longer, [] if longer is None else [Condition("length", str(n), n) for n in sorted(longer.graphs)[1:]]),
        ):
            if one is not None:
                try:
                    run = _Run(one, named, pool, tensors, deadline_s, notes)
                except MindgapError as error:
                    if one is captured:
                        raise
                    answers += [Answer(each, "not_run", detail=str(error)) for each in tried]
                    continue
                given_answers = [run.answer(each) for each in tried]
                answers += given_answers
                choices += _choices(one, given_answers, named, pool, deadline_s, notes)
        by_shape = partial(kernel_map, captured.graphs, captured.inputs, named, pool.run, deadline_s)
        mapped = _noted("which sizes share bits", by_shape, notes) if kernels else []
    decoded = Decoded() if decoding is None else _decoded(decoding, named, notes, texts)
    return Invariance(
        model, named, (*answers, *decoded.answers), tuple(choices), tuple(mapped), decoded.divergences, tuple(notes),
        time.perf_counter() - started,
    )  # fmt: skip


def _choices(
    asked: Asked, answers: Sequence[Answer], platform: PlatformName, pool: WorkerPool, deadline_s: float,
    notes: list[str],
) -> list[KernelChoice]:  # fmt: skip
    """The operators that give other bits, at the first size that does."""
    differing = next((answer.condition for answer in answers if answer.bits > 0 and answer.condition.size), None)
    if differing is None:
        return []
    within = all(answer.verdict != "beyond" for answer in answers)

    def choices() -> tuple[list[KernelChoice], str]:
        given = asked.given(replace(differing, position=0))
        return kernel_choices(asked.graphs, given, differing.size, platform, pool.run, deadline_s, within)

    return _noted("which operators give other bits by themselves", choices, notes)


def _noted(what: str, made: Callable[[], tuple[list[KernelChoice], str]], notes: list[str]) -> list[KernelChoice]:
    """Returns the choices; `notes` gets why there are none, or why more are missing."""
    try:
        choices, why = made()
    except MindgapError as error:
        choices, why = [], f"{what} is not known: {error}"
    notes += [why] * bool(why)
    return choices


def _decoded(decoding: Decoding, platform: PlatformName, notes: list[str], texts: Sequence[GeneratedText]) -> Decoded:
    """What the platform answers to a text; that it does not run it costs no other answer."""
    try:
        return decoding.ask(platform, notes, texts)
    except MindgapError as error:
        return Decoded((Answer(Condition("decoding", "the whole text"), "not_run", detail=str(error)),))


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
    asked: Asked
    platform: PlatformName
    pool: WorkerPool
    tensors: TensorStore
    deadline_s: float
    notes: list[str]

    def __post_init__(self) -> None:
        alone = self._outcome(Condition("repeat", "alone"))
        if not alone.ran or alone.arrays is None:
            raise MindgapError(f"nothing is compared: {self.platform} gives {reason_of(alone)}")
        self._alone = alone.arrays
        self._specs = [self.asked.alone.values[number] for number in self.asked.alone.outputs]
        self._judge = AnswerJudge(
            self.asked.alone, self.asked.inputs, self.platform, self.pool, self._alone, self.notes
        )
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
            self._judge.note("runs in one process differ from each other")
        # Of repeated runs, the one that differs counts.
        return self._judge.answer(condition, next((r for r in runs if digests(r) != digests(base)), runs[0]), base)

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

    def _outcome(self, condition: Condition) -> Outcome:
        name = self.platform
        if condition.threads:
            if "threads" in name.options:
                raise MindgapError(f"{name} names its threads already")
            name = canonical(parse(name).with_options(threads=str(condition.threads)))
        graph = self.asked.graphs[condition.size or self.asked.least]
        job = Job(name, graph, want="outputs", deadline_s=self.deadline_s, inputs=self.asked.given(condition))
        if condition.beside:
            with WorkerPool([name], tensors=self.tensors) as other:
                return _run_during(
                    lambda: self.pool.run(replace(job, repeat=8)), lambda: other.run(replace(job, repeat=8))
                )
        if not condition.fresh:
            return self.pool.run(replace(job, repeat=2))
        with WorkerPool([name], tensors=self.tensors, forks=False) as pool:
            return pool.run(job)


def _run_during(run: Callable[[], Outcome], other: Callable[[], Outcome]) -> Outcome:
    """Runs a job while another process runs its own again and again; it has loaded what it runs before.

    Raises `MindgapError` where the other process does not run it.
    """
    over = threading.Event()

    def busy() -> Outcome:
        last = first
        while last.ran and not over.is_set():
            last = other()
        return last

    first = other()
    with ThreadPoolExecutor(1, "mindgap-beside") as threads:
        running = threads.submit(busy)
        try:
            outcome = run()
        finally:
            over.set()
        last = running.result()
    if outcome.ran and not last.ran:
        raise MindgapError(f"the process beside it gives {reason_of(last)}")
    return outcome
