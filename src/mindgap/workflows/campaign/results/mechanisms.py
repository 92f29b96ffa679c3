"""Finds reduced findings of a campaign that have one mechanism, in a worker process."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mindgap.findings.causes import SameMechanism
from mindgap.run.message import WorkerFailed
from mindgap.run.process import RequestLimits
from mindgap.run.worker_client import WorkerClient, WorkerStart
from mindgap.workflows.campaign.results.reduce import SERVICE
from mindgap.workflows.campaign.state.directory import CampaignDirectory

_PAIR_S: Final = 180.0


def same_mechanisms(
    directory: CampaignDirectory, out: Path, scripts: Sequence[str], seconds: float = 600.0
) -> tuple[SameMechanism, ...]:
    """Evidence that findings have one mechanism. `scripts`: of reduced findings in `out`.

    No pair is begun after so many `seconds`. A pair that crashes or hangs the worker is left out.
    """
    if len(scripts) < 2:
        return ()
    options = {"directory": str(directory.path), "out": str(out)}
    client = WorkerClient(WorkerStart(SERVICE), options, RequestLimits(_PAIR_S))
    ends = time.monotonic() + seconds
    found: list[SameMechanism] = []
    try:
        for first, second in _ask(client, "pairs", scripts).get("pairs", ()):
            if time.monotonic() >= ends:
                break
            if not _are_joined(first, second, found):
                evidence = _ask(client, "same", (first, second)).get("evidence", "")
                found += [SameMechanism(first, second, evidence)] if evidence else []
    finally:
        client.close()
    return tuple(found)


def _ask(client: WorkerClient, kind: str, scripts: Sequence[str]) -> Mapping[str, Any]:
    """The worker's answer, empty where it crashed or took too long."""
    try:
        return client.ask({"kind": kind, "scripts": list(scripts)}, (), RequestLimits(_PAIR_S)).header
    except WorkerFailed:
        return {}


def _are_joined(first: str, second: str, found: Sequence[SameMechanism]) -> bool:
    """Whether evidence joins the two already, by way of others."""
    reached, waiting = {first}, [first]
    while waiting:
        name = waiting.pop()
        near = {
            each.second if each.first == name else each.first for each in found if name in (each.first, each.second)
        }
        waiting += near - reached
        reached |= near
    return second in reached
