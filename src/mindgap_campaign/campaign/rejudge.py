"""Runs and judges stored findings of a campaign again, after the judge has been improved."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from mindgap.graph import MindgapError, default_tensor_store, encode
from mindgap.graph.compare.verdict import FINDINGS
from mindgap.judge.pipeline.outcome_rows import compare_outcomes, is_traced
from mindgap.platforms.name import recorded
from mindgap.results.recording import Recording
from mindgap.run.pool import WorkerPool
from mindgap_campaign.campaign.cases.case import Case
from mindgap_campaign.campaign.judging.judge_process import case_job, judge_limits, judge_processes
from mindgap_campaign.campaign.session import RunOptions
from mindgap_campaign.campaign.state.directory import open_directory

#: Words of rows whose graphs a campaign keeps.
_WORDS: Final = (*FINDINGS, "not_judged")
#: Rows whose graph the store keeps, in the order of the cases.
_ROWS: Final = """
SELECT v.model, v.platform, v.word, v.graph, m.position, m.nodes
FROM verdicts v JOIN models m USING (run, model)
WHERE v.run = $run AND list_contains($words, v.word) AND ($platform = '' OR v.platform = $platform)
ORDER BY m.position, v.platform
"""


def judge_again(
    path: str | Path, words: Collection[str] = (), platform: str = "", *, options: RunOptions | None = None
) -> Counter[tuple[str, str]]:
    """Runs and judges the cases of findings again. `words`: verdicts (default: all findings except failures).
    `platform`: only findings there (default: all platforms).

    `not_judged`, where mindgap itself failed, counts as a finding here. New rows replace the old ones. Returns the
    number of rows by (old verdict, new verdict). Raises `MindgapError` for a word that is no finding, and if there is
    no such row.
    """
    words = list(words) or [word for word in _WORDS if word != "failed"]
    for word in words:
        if word not in _WORDS:
            raise MindgapError(f"--word {word}: it takes one of {', '.join(_WORDS)}")
    directory, options = open_directory(path), options or RunOptions()
    plan = directory.plan
    rows = directory.store.rows(_ROWS, {"run": directory.run, "words": words, "platform": platform})
    if not rows:
        where = f" on {platform}" if platform else ""
        raise MindgapError(f"{path} has no row{where} that is {' or '.join(words)}: nothing is to be judged again")
    limits = judge_limits(plan, options.tensors or default_tensor_store())
    busy = options.jobs or os.cpu_count() or 2
    names = [plan.reference, *dict.fromkeys(recorded(row["platform"]) for row in rows)]
    changed: Counter[tuple[str, str]] = Counter()
    with ExitStack() as stack:
        pool = stack.enter_context(
            WorkerPool(names, tensors=limits.tensors, busy=busy, memory_limit_bytes=limits.memory_bytes)
        )
        writer = stack.enter_context(directory.store.writer(after=directory.store.last_stamp()))
        record = Recording(directory.store, writer, limits.settings, pool.describe, "campaign", directory.run)
        judges = stack.enter_context(judge_processes(busy, limits, pool.run, pool.describe))
        threads = stack.enter_context(ThreadPoolExecutor(busy, "mindgap-again"))

        def again(row: Mapping[str, Any]) -> tuple[str, str]:
            graph = directory.store.get_graph(row["graph"])
            case = Case(row["position"], row["model"], encode(graph, labels=False), row["graph"], "", (), row["nodes"])
            names = (plan.reference, recorded(row["platform"]))
            reference, outcome = (pool.run(case_job(plan, name, graph)) for name in names)
            judged = compare_outcomes(case.name, outcome, reference)
            if judged is None or is_traced(judged, plan.limits.trace):
                judged = judges[case.index % len(judges)].row(case, outcome, reference)
            record.row(case.digest, judged, outcome)
            return row["word"], judged.word

        options.steps.step("judging findings again", len(rows))
        for done, change in enumerate(threads.map(again, rows), 1):
            changed[change] += 1
            options.steps.tick(done, len(rows))
    return changed
