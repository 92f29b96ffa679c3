"""Layers of PyTorch Geometric: on one fixed graph, the same each time, refused with a reason."""

from importlib.util import find_spec

import pytest
import torch

from mindgap.graph.codec import digest
from mindgap.graph_capture import CaptureError
from mindgap.sources.opening import capture_program, open_source
from mindgap.sources.source import SourceError
from mindgap_zoo.zoos.pyg import models as pyg_zoo

pytestmark = pytest.mark.skipif(find_spec("torch_geometric") is None, reason="torch_geometric is not installed")


def _program(name):
    (program,) = open_source(f"pyg:{name}")
    return program


def test_names_are_layers_and_models_without_their_bases():
    names = pyg_zoo.names()
    assert len(names) > 160
    assert {"GCNConv", "GAT", "SchNet", "GraphNorm", "Set2Set", "DenseGCNConv"} <= {*names}
    assert not {"MessagePassing", "Aggregation", "DataParallel"} & {*names}


@pytest.mark.parametrize("name", ["GATConv", "PNAConv", "SchNet", "HGTConv", "Set2Set", "ViSNet"])
def test_a_layer_is_captured_and_proven(name):
    graph = capture_program(_program(name))
    assert len(graph.nodes) > 5
    assert any(given.role == "input" for given in graph.inputs)


def test_the_graph_is_a_constant_and_the_features_are_inputs():
    graph = capture_program(_program("GCNConv"))
    by_role = dict(zip(graph.labels.inputs, (given.role for given in graph.inputs), strict=True))
    assert by_role["x"] == by_role["edge_weight"] == "input"
    assert "edge_index" not in by_role
    assert "constant" in by_role.values()


def test_a_graph_is_the_same_each_time_and_another_with_another_seed():
    first, again = (digest(capture_program(_program("RGATConv"))) for _ in range(2))
    assert first == again
    assert digest(capture_program(_program("RGATConv?seed=1"))) != first


def test_gradients_are_captured_too():
    graph = capture_program(_program("GINConv"), backward=True)
    assert sum(label.startswith("grad") for label in graph.labels.outputs) >= 4


def test_edges_stay_in_their_example_and_no_node_is_its_own_neighbour():
    from mindgap.sources.weights.tensor_registry import TensorRegistry
    from mindgap_zoo.zoos.pyg.example_graph import GRAPHS, NODES, ExampleGraph

    source, target = ExampleGraph(None, TensorRegistry(), 0, "float32").edges()
    size = NODES // GRAPHS
    assert torch.equal(source // size, target // size)
    assert not bool((source == target).any())
    assert int(target.max()) < NODES and int(target.min()) >= 0


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("TopKPooling", CaptureError, "depends on the data"),
        ("SplineConv", SourceError, "pyg-lib"),
        ("RENet", SourceError, "no telling what its input data takes"),
    ],
)
def test_what_cannot_be_captured_says_why(name, kind, said):
    with pytest.raises(kind, match=said) as caught:
        capture_program(_program(name))
    assert "\n" not in str(caught.value)


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(SourceError, match="did you mean GCNConv"):
        open_source("pyg:GCNConf")
