"""How many names of PyTorch's sample database run, and why the others do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindgap.graph import TensorStore
from mindgap.platforms.name import CPU_EAGER
from mindgap.run.pool import WorkerPool
from mindgap_surveys.support.sample_names import UNWRITTEN, named_samples, run_names
from mindgap_zoo.operator_samples.operators import sample_database

pytest.importorskip("expecttest")
ONLY = ("empty_strided", "equal", "jiterator_unary", "max", "nonzero", "tanh", "sparse.mm")


def test_a_name_runs_as_a_graph_or_as_a_program_or_says_why_not(tmp_path: Path) -> None:
    tensors = TensorStore(tmp_path)
    samples = list(named_samples(tensors, ONLY))
    with WorkerPool([CPU_EAGER], tensors=tensors) as pool:
        found = {each.name: each for each in run_names(samples, CPU_EAGER, pool.run)}
    assert {name: each.how for name, each in found.items()} == {
        "empty_strided": "graph", "equal": "program", "jiterator_unary": "not run", "max": "graph",
        "nonzero": "graph", "sparse.mm": "program", "tanh": "graph",
    }  # fmt: skip
    assert found["nonzero"].sample.endswith("?path_taken=1"), "the size of its result depends on data"
    assert found["tanh"].sample == "ops:tanh#0" and found["sparse.mm"].sample == "ops:sparse.mm.reduce"
    assert found["empty_strided"].reason == UNWRITTEN and "sparse_csr" in found["sparse.mm"].reason
    assert "CUDA" in found["jiterator_unary"].reason, "in PyTorch's own words"


def test_the_database_is_whole() -> None:
    """PyTorch 2.13 has 636 names; a later one has not fewer."""
    names = sample_database()
    assert len(names) >= 636 and set(ONLY) <= names.keys()
    assert {"div.no_rounding_mode", "div.trunc_rounding"} <= set(names["div"])


@pytest.mark.nightly
def test_all_names_but_those_of_cuda_run_on_the_cpu(tmp_path: Path) -> None:
    tensors = TensorStore(tmp_path)
    samples = list(named_samples(tensors))
    with WorkerPool([CPU_EAGER], tensors=tensors) as pool:
        found = run_names(samples, CPU_EAGER, pool.run)
    left = {each.name for each in found if each.how == "not run"}
    assert all(name.startswith(("jiterator", "torch.ops.aten._")) for name in left) and len(left) == 7
    assert sum(each.how == "graph" for each in found) >= 619
