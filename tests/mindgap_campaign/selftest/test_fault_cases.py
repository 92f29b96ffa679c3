"""The matrix writes files that `faulty/eager` reads, spreads over kinds, and repeats for a seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from mindgap.graph import Graph
from mindgap.graph.tensors import TensorStore
from mindgap_campaign.faulty.schema import Attribute, read_faults
from mindgap_campaign.selftest.fault_cases import benign_for, faults_for
from mindgap_campaign.selftest.programs import PROGRAMS
from mindgap_campaign.selftest.subjects import NotHere, graph_of, names


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Graph]:
    tensors = TensorStore(tmp_path_factory.mktemp("tensors"))
    return {name: graph_of(name, 0, tensors) for name in PROGRAMS}


def test_every_case_is_a_valid_file_about_an_operator_of_the_graph(graphs: dict[str, Graph], tmp_path: Path) -> None:
    file = tmp_path / "case.toml"
    for graph in graphs.values():
        ops = {node.op for node in graph.nodes}
        for case in faults_for(graph, 0, 500):
            file.write_text(case.to_toml())
            (fault,) = read_faults(str(file))[0].fault
            assert fault.when.op in ops and case.op == fault.when.op and case.expected == "fault"


def test_attributes_are_ones_that_the_operators_have(graphs: dict[str, Graph], tmp_path: Path) -> None:
    from mindgap.aten.operators import facts

    seen: set[str] = set()
    for graph in graphs.values():
        for case in faults_for(graph, 0, 500):
            if case.kind != "wrong attribute":
                continue
            (tmp_path / "case.toml").write_text(case.to_toml())
            (fault,) = read_faults(str(tmp_path / "case.toml"))[0].fault
            assert isinstance(fault, Attribute)
            if set(fault.set) <= set(facts(case.op).arguments):
                seen.add(case.op.split(".")[1])
    assert {
        "gelu",
        "layer_norm",
        "batch_norm",
        "softmax",
        "avg_pool2d",
        "cumsum",
        "add_",
        "scaled_dot_product_attention",
    } <= seen


def test_a_seed_repeats_and_a_limit_spreads(graphs: dict[str, Graph]) -> None:
    graph = graphs["convnet"]
    assert faults_for(graph, 3, 20) == faults_for(graph, 3, 20) != faults_for(graph, 4, 20)
    sample = faults_for(graph, 3, 12)
    assert len(sample) == 12 == len({case.kind for case in sample})


def test_benign_cases_are_of_rounding_operators_only(graphs: dict[str, Graph]) -> None:
    found = benign_for(graphs["mlp"], ["aten.linear.default", "aten.gelu.default"], 0)
    assert [c.expected for c in found].count("refusal") == 1
    assert all(f["when"]["op"] in ("aten.linear.default", "aten.gelu.default") for c in found[:-1] for f in c.faults)
    assert found[0].faults == ()


def test_programs_cover_many_operators(graphs: dict[str, Graph]) -> None:
    assert len({node.op for graph in graphs.values() for node in graph.nodes}) >= 80


def test_a_subject_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    from mindgap.graph import digest

    stores = [TensorStore(tmp_path / str(i)) for i in range(3)]
    digests = [digest(graph_of("mlp@bfloat16", seed, store)) for seed, store in zip((1, 1, 2), stores, strict=True)]
    assert digests[0] == digests[1] != digests[2]


def test_what_is_not_here_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotHere, match="no_such_model"):
        graph_of("timm:no_such_model", 0, TensorStore(tmp_path))
    assert set(names(quick=True)) - set(names(quick=False)) <= {"transformers:BertModel?layers=1"}
