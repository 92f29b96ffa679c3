"""A bad record is one line on standard error and exit status 2."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.command_line import mindgap

INPUT = {"name": "X0", "kind": "input", "shape": [4], "dtype": "float32", "mean": 0, "std": 1, "data": None}
CALL = {"name": "r", "op": "call_function", "target": "torch.neg", "args": [{"ref": "X0"}], "kwargs": {}}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("inputs", "nodes", "record", "says"),
    [
        ([INPUT], [{**CALL, "target": "os.system"}], "a", "os.system, which is not on the list"),
        ([{**INPUT, "shape": [1 << 44]}], [CALL], "a", "too large"),
        ([INPUT], [{**CALL, "args": [{"ref": "r"}]}], "a", "node r refers to r"),
        ([INPUT], [CALL], "absent", "no record 'absent'"),
    ],
)
def test_one_line_and_status_2(tmp_path: Path, inputs: object, nodes: object, record: str, says: str) -> None:
    row = {"id": ["a"], "inputs": [json.dumps(inputs)], "nodes": [json.dumps(nodes)], "outputs": ['[{"ref": "r"}]']}
    pq.write_table(pa.table(row), tmp_path / "bad.parquet")
    ran = mindgap("diff", f"records:bad.parquet#{record}", "-p", "cpu/jit", cwd=tmp_path)
    assert ran.status == 2, ran
    lines = [line for line in ran.err.splitlines() if says in line]
    assert len(lines) == 1 and "Traceback" not in ran.err, ran.err
