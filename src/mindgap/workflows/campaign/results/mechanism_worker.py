"""Process that compares reduced findings: `python -m mindgap.workflows.campaign.results.mechanism_worker --parent PID`.

A pair that crashes or hangs the process costs that pair.

parent → worker   pairs   names of scripts
worker → parent   pairs   the pairs of them that may have one mechanism
parent → worker   same    two names of scripts
worker → parent   same    the evidence that they have one mechanism; empty without any
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mindgap.findings.causes.mechanism import Run, pairs_to_compare, same_mechanism
from mindgap.findings.causes.reduced_cases import reduced_cases, run_with
from mindgap.findings.reduction.files import read_summary
from mindgap.graph import MindgapError, default_tensor_store
from mindgap.judge.pipeline.comparison import RunContext
from mindgap.run.channel import FrameReader, send_frame
from mindgap.run.pool import WorkerPool
from mindgap.run.worker_setup import claim_channel, prepare_to_die, serve_until_hangup
from mindgap.workflows.campaign.results.reduction_worker import new_pool
from mindgap.workflows.campaign.state.directory import open_directory


def answer(asked: Mapping[str, Any], out: Path, run: Run) -> dict[str, Any]:
    """The answer to one request about reduced findings in the directory `out`."""
    scripts = asked["scripts"]
    try:
        cases = reduced_cases(out, [read_summary((out / script).with_suffix(".json")) for script in scripts])
        if asked["kind"] == "pairs":
            found = [[one.summary.script, other.summary.script] for one, other in pairs_to_compare(cases)]
            return {"kind": "pairs", "pairs": found}
        first, second = cases
        evidence = same_mechanism(first, second, run)
    except MindgapError:  # what cannot be run again is no evidence
        return {"kind": asked["kind"], "pairs": [], "evidence": ""}
    return {"kind": "same", "evidence": "" if evidence is None else evidence.evidence}


def main(argv: Sequence[str] | None = None) -> int:
    """Serves requests until the parent closes the channel."""
    parser = argparse.ArgumentParser(prog="mindgap.workflows.campaign.results.mechanism_worker", description=__doc__)
    parser.add_argument("--parent", type=int, help="the process to die with")
    parser.add_argument("--directory", type=Path, required=True, help="of the campaign")
    parser.add_argument("--out", type=Path, required=True, help="where the reduced findings are")
    arguments = parser.parse_args(argv)
    requests, answers = claim_channel()
    prepare_to_die(arguments.parent, requests, None)
    directory, tensors = open_directory(arguments.directory), default_tensor_store()

    def context(pool: WorkerPool) -> RunContext:
        return RunContext(pool.run, replace(directory.plan.run_settings, trace=True), tensors, pool.describe)

    with new_pool(directory, tensors) as pool:

        def serve() -> None:
            reader = FrameReader(requests)
            send_frame(answers, {"kind": "ready"})
            while True:
                send_frame(answers, answer(reader.next().header, arguments.out, run_with(context(pool))))

        serve_until_hangup(serve)


if __name__ == "__main__":
    sys.exit(main())
