"""Programs that only round, on platforms that only round otherwise: never a finding."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from judge.oracle.applied import normal, program
from judge.oracle.bench import PLATFORM, Bench
from judge.oracle.rounding import PROGRAMS, last_bits
from mindgap.graph.compare.verdict import CALM


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_finding(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    one = program(PROGRAMS[name], normal(8, 16, seed=11).to(dtype), store=tmp_path)
    found = Bench({PLATFORM: last_bits}).judge(one.graph, one.inputs, trace=False)
    assert found.verdict in CALM, found.detail
