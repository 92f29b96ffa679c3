"""A subject tried in a worker process gives the rows that it gives in this process."""

from __future__ import annotations

import dataclasses

import pytest
from pydantic import TypeAdapter

from mindgap.run.process import RequestLimits
from mindgap.run.worker_client import WorkerClient, WorkerStart
from mindgap_campaign.selftest.api import SERVICE
from mindgap_campaign.selftest.report import CaseRow, Trials
from mindgap_campaign.selftest.trial import try_subject


def plain(trials: Trials) -> list[CaseRow]:
    """The rows without seconds, and without details, which name the directory of the fault files."""
    return [dataclasses.replace(row, seconds=0.0, detail="") for row in trials.rows]


@pytest.mark.nightly
def test_a_worker_tries_a_subject_and_says_why_it_skips_one() -> None:
    client = WorkerClient(WorkerStart(SERVICE), {}, RequestLimits(120.0))
    try:
        asked = {"kind": "try", "subject": "pointwise", "seed": 2, "limit": 3}
        found = TypeAdapter(Trials).validate_python(client.ask(asked, (), RequestLimits(240.0)).header)
        assert found.rows and plain(found) == plain(try_subject("pointwise", 2, 3))
        skipped = client.ask({**asked, "subject": "timm:no_such_model"}, (), RequestLimits(120.0)).header
        assert skipped["rows"] == [] and "no_such_model" in skipped["skipped"]
    finally:
        client.close()
