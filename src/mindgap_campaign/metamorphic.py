"""Compares a platform with itself: a graph, and mutants of it that must give the same results.

Where a mutant's outputs have the bits of the graph's own, its row is `identical`. Otherwise the mutant is compared with
the reference and judged like any graph: another order of summation is rounding, a wrong kernel is not.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.metadata import version
from random import Random
from typing import TYPE_CHECKING, Final

from mindgap.findings.script.culprit_script import culprit_script
from mindgap.graph import MindgapError
from mindgap.graph.tensors import TensorStore, default_tensor_store
from mindgap.judge.pipeline.comparison import GraphComparison, RunContext
from mindgap.judge.pipeline.outcome_rows import as_identical, model_of, refusal, row_of, row_or_failure
from mindgap.platforms.name import PlatformName
from mindgap.platforms.registry import canonical
from mindgap.results.rows import Model, Refused, Report, Row, identities
from mindgap.results.settings import RunSettings
from mindgap.run.outcome import Outcome
from mindgap.run.pool import WorkerPool
from mindgap.workflows.diff.platform_facts import facts_of
from mindgap.workflows.diff.subject import Subject

if TYPE_CHECKING:
    from mindgap_campaign.synth.metamorphic import Mutant

#: Bytes of one value of a mutant: those of whole models, not of a region.
_MOST_BYTES: Final = 1 << 30


def metamorphic(
    subjects: Iterable[Subject],
    platform: str,
    *,
    settings: RunSettings | None = None,
    tensors: TensorStore | None = None,
    seed: int = 0,
    jobs: int | None = None,
) -> Report:
    """Compares every subject with its mutants on one platform: a row per mutant, `NAME ~ KIND`.

    `identical`: the bits of the graph as it was given, on this very platform. `settings.reference` judges the others.
    A subject that gives no graph, or does not run, is `refused`. Raises `PlatformError` for a platform that is unknown
    or not on this machine.
    """
    started = time.perf_counter()
    tensors = tensors or default_tensor_store()
    settings = settings or RunSettings()
    settings = dataclasses.replace(settings, reference=canonical(settings.reference))
    named = canonical(platform)
    platforms = [settings.reference, named]
    facts = facts_of(platforms, reference=settings.reference, skip_unavailable=False)
    models: list[Model] = []
    rows: list[Row] = []
    refused: list[Refused] = []
    busy = jobs or os.cpu_count() or 2
    with (
        WorkerPool(platforms, tensors=tensors, busy=busy) as pool,
        ThreadPoolExecutor(busy, "mindgap-mutant") as threads,
    ):
        context = RunContext(pool.run, settings, tensors, pool.describe, script=culprit_script)
        for subject in subjects:
            try:
                one = _MutantRunner(context, subject, named, seed)
                mutant_rows = list(threads.map(one.row, one.mutants))
            except Exception as error:
                refused.append(refusal(subject.name, error))
                continue
            models += [model for model, _ in mutant_rows]
            rows += [row for _, row in mutant_rows]
    return Report(
        reference=settings.reference,
        platforms=facts,
        models=tuple(models),
        rows=tuple(rows),
        refused=tuple(refused),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        version=version("mindgap"),
        seconds=time.perf_counter() - started,
    )


class _MutantRunner:
    """Runs one graph and its mutants on one platform."""

    def __init__(self, context: RunContext, subject: Subject, platform: PlatformName, seed: int) -> None:
        """Raises `MindgapError` where there is no graph, or it does not run on the platform."""
        # Imported late: a process that only lists platforms needs no PyTorch.
        from mindgap.aten.state import TORCH_STATE
        from mindgap_campaign.synth.metamorphic import mutants_of

        self._context, self._name, self._platform = context, subject.name, platform
        graph = subject.captured()
        if graph.grad:
            raise MindgapError("it asks for gradients, which no mutant is made of; capture it with --backward")
        with TORCH_STATE:
            self.mutants = [self._specified(mutant) for mutant in mutants_of(graph, Random(seed))]
        self._original = context.run(platform, graph)
        if not self._original.ran:
            raise MindgapError(f"{platform} does not run it: {self._original.status}: {self._original.message}")

    def _specified(self, mutant: Mutant) -> Mutant:
        """The mutant with the specs that its values have. Raises `MindgapError` where it does not run on the CPU."""
        from mindgap.aten.specs import with_specs

        return dataclasses.replace(mutant, graph=with_specs(mutant.graph, self._context.tensors, _MOST_BYTES))

    def row(self, mutant: Mutant) -> tuple[Model, Row]:
        """The mutant on the platform."""
        name = f"{self._name} ~ {mutant.kind}"
        outcome = self._context.run(self._platform, mutant.graph)
        if self._as_before(mutant, outcome):
            row = as_identical(row_of(name, outcome), outcome)
            row = dataclasses.replace(row, detail="the bits of the graph as it was given")
            return model_of(name, mutant.graph, outcome, {}), row
        comparison = GraphComparison(self._context, name, mutant.graph)
        row = row_or_failure(name, self._platform, lambda: comparison.decide(outcome))
        if not row.broken:
            row = dataclasses.replace(row, detail=f"not the graph's own bits; {row.detail}")
        return comparison.model({}), row

    def _as_before(self, mutant: Mutant, outcome: Outcome) -> bool:
        """Every output of the original, and every pair of outputs that must be equal, has the same bits."""
        if not outcome.ran or outcome.status != "ok":
            return False
        now, before = identities(outcome), identities(self._original)
        same = all(now[position] == wanted for position, wanted in zip(mutant.outputs, before, strict=True))
        return same and all(now[one] == now[other] for one, other in mutant.equal_outputs)
