"""Shared data outside the repo, where it is there; one thread everywhere."""

from pathlib import Path

import pytest
import torch

RECORDS = Path(__file__).parents[2].parent / "shared" / "corpus" / "graphnet.parquet"


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def records():
    if not RECORDS.is_file():
        pytest.skip("../shared/corpus/graphnet.parquet is not here")
    return RECORDS
