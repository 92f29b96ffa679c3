"""Runs a form of the model on a platform, batch by batch: its captured graph, or the model file that it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mindgap.graph import Array, Graph, MindgapError, TensorStore, materialise_all, numpy_dtype
from mindgap.graph.spec import TensorSpec
from mindgap.judge.trace.side_values import reason_of
from mindgap.own_path.client import OwnPathClient
from mindgap.own_path.user_program import UserProgram
from mindgap.platforms.name import parse
from mindgap.run.outcome import Job
from mindgap.run.pool import WorkerPool
from mindgap_studies.results.predictions import ComparedForm, Task
from mindgap_studies.task_runs.images import InputForm
from mindgap_studies.task_runs.outputs import check_outputs


class ColumnFailed(MindgapError):
    """A platform does not run a form of the model. The other columns go on."""


@dataclass(frozen=True)
class ModelForm:
    """A form of the model: its name ("" for the model itself), its source, its graph."""

    name: str
    source: str
    graph: Graph

    @cached_property
    def inputs(self) -> list[int]:
        """The numbers of the graph's inputs that the dataset fills."""
        return [number for number, given in enumerate(self.graph.inputs) if given.role == "input"]

    @cached_property
    def specs(self) -> list[TensorSpec]:
        return [self.graph.inputs[number].spec for number in self.inputs]

    @cached_property
    def batch(self) -> int:
        """How many examples the graph takes at once. Raises `MindgapError` for inputs that disagree."""
        sizes = {spec.shape[0] if spec.shape else 0 for spec in self.specs}
        if len(sizes) != 1 or 0 in sizes:
            raise MindgapError(f"{self.source}: its inputs have no common first dimension, along which examples lie")
        return sizes.pop()

    def input_forms(self) -> list[InputForm]:
        """Returns what a dataset has to give. Float inputs of any width take float32."""
        names = self.graph.labels.inputs
        found: list[InputForm] = []
        for number, spec in zip(self.inputs, self.specs, strict=True):
            dtype = "float32" if spec.dtype in ("float16", "bfloat16") else spec.dtype
            found.append(InputForm(names[number] if names else f"input {number}", spec.shape[1:], dtype))
        return found

    def given(self, inputs: Sequence[Array]) -> dict[int, Array]:
        """Returns a batch as the graph's inputs, by number, in its dtypes."""
        return {
            number: np.ascontiguousarray(array, numpy_dtype(spec.dtype))
            for number, spec, array in zip(self.inputs, self.specs, inputs, strict=True)
        }

    def materialised(self, inputs: Sequence[Array], tensors: TensorStore) -> list[Array]:
        """Returns all inputs of the graph, in order, with a batch in place."""
        found = materialise_all(self.graph, tensors)
        for number, array in self.given(inputs).items():
            found[number] = array
        return found

    def check(self, task: Task, like: ModelForm | None = None) -> None:
        """Raises `MindgapError` for outputs that do not answer the task, and inputs other than those of `like`."""
        specs = [self.graph.values[number] for number in self.graph.outputs]
        given = [(spec.shape, spec.dtype) if spec is not None else ((), "nothing") for spec in specs]
        try:
            check_outputs(task, given, self.batch)
        except MindgapError as error:
            raise MindgapError(f"{self.source}: {error}") from None
        shapes = [spec.shape for spec in self.specs]
        if like is not None and shapes != [spec.shape for spec in like.specs]:
            raise MindgapError(
                f"--form {self.name}: it takes inputs {shapes}, and the model others: give one with the same"
            )


def filled(inputs: Sequence[Array], batch: int) -> tuple[Array, ...]:
    """Returns a batch of full size: the last example is repeated."""
    return tuple(np.concatenate([a, np.repeat(a[-1:], batch - len(a), 0)]) if len(a) < batch else a for a in inputs)


@dataclass(frozen=True)
class ColumnRunner:
    form: ModelForm
    column: ComparedForm
    pool: WorkerPool
    files: OwnPathClient
    deadline_s: float

    def outputs(self, inputs: Sequence[Array]) -> tuple[Array, ...]:
        """Returns the outputs for a full batch. Raises `ColumnFailed` with the platform's reason."""
        platform = parse(self.column.platform)
        if self.column.way != "graph":
            try:
                return UserProgram(self.files, self.form.source).feed(platform, [*self.form.given(inputs).values()])
            except MindgapError as error:
                raise ColumnFailed(f"{self.column.name}: {error}") from None
        job = Job(
            platform, self.form.graph, want="outputs", repeat=1, deadline_s=self.deadline_s,
            inputs=self.form.given(inputs),
        )  # fmt: skip
        outcome = self.pool.run(job)
        if not outcome.ran or outcome.arrays is None:
            raise ColumnFailed(f"{self.column.name}: {reason_of(outcome)}")
        return outcome.arrays
