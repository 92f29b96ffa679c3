"""Shared data outside the repository, where they are there."""

from __future__ import annotations

from pathlib import Path

import pytest

RECORDS = Path(__file__).parents[2].parent / "shared" / "corpus" / "graphnet.parquet"


@pytest.fixture(scope="session")
def records() -> Path:
    if not RECORDS.is_file():
        pytest.skip("../shared/corpus/graphnet.parquet is not here")
    return RECORDS
