"""Lists constructor arguments and inputs of PyTorch Geometric layers that rules cannot derive, by class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import nn

from mindgap_zoo.zoos.pyg.example_graph import (
    EDGE_FEATURES,
    EDGES,
    FEATURES,
    GRAPHS,
    KINDS,
    NODES,
    OUT,
    RELATIONS,
    ExampleGraph,
    mlp,
)  # fmt: skip

#: Base classes, wrappers around several devices, and names of the past.
ABSTRACT: Final = frozenset({"Aggregation", "MessagePassing", "KGEModel", "DataParallel", "GlobalAttention", "Reshape"})

_PER = NODES // GRAPHS
_KINDS_OF_NODES: Final = ("author", "paper")
_KINDS_OF_EDGES: Final = (("author", "writes", "paper"), ("paper", "cites", "paper"), ("paper", "by", "author"))
_METADATA: Final = ([*_KINDS_OF_NODES], [*_KINDS_OF_EDGES])


class Gaussian(nn.Module):
    """Computes means and log deviations of a variational encoder with two convolutions."""

    def __init__(self, library: Any) -> None:
        super().__init__()
        self.mean = library.GCNConv(FEATURES, OUT)
        self.deviation = library.GCNConv(FEATURES, OUT)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.mean(x, edge_index), self.deviation(x, edge_index)


class EdgeUpdate(nn.Module):
    """Computes features of an edge from its end nodes and its features."""

    def __init__(self) -> None:
        super().__init__()
        self.network = mlp(2 * FEATURES + EDGE_FEATURES, EDGE_FEATURES)

    def forward(self, source: torch.Tensor, target: torch.Tensor, own: torch.Tensor, *_: Any) -> torch.Tensor:
        return self.network(torch.cat([source, target, own], 1))


class NodeUpdate(nn.Module):
    """Computes features of a node from its features and the mean over its incoming edges."""

    def __init__(self) -> None:
        super().__init__()
        self.network = mlp(FEATURES + EDGE_FEATURES, FEATURES)

    def forward(self, own: torch.Tensor, ends: torch.Tensor, edges: torch.Tensor, *_: Any) -> torch.Tensor:
        gathered = own.new_zeros(own.shape[0], edges.shape[1]).index_add(0, ends[1], edges)
        return self.network(torch.cat([own, gathered], 1))


class InOrder(nn.Module):
    """Wraps a layer that takes features and edges by position only, or that does not switch between training and
    evaluation."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor | None = None) -> Any:
        return self.layer(x) if edge_index is None else self.layer(x, edge_index)


class Distances(nn.Module):
    """Gives the edges of the fixed graph with their lengths and directions, in place of a neighbour search."""

    def __init__(self, edges: torch.Tensor) -> None:
        super().__init__()
        self.edges = edges

    def forward(self, pos: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        vectors = pos[self.edges[0]] - pos[self.edges[1]]
        return self.edges, vectors.square().sum(-1).sqrt(), vectors.clone()  # It is normalised in place.


def _summary(states: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    return torch.sigmoid(states.mean(0))


def _corruption(**given: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Returns the same graph with the features of other nodes, in the order of drawing."""
    return tuple(value.flip(0) if name == "x" else value for name, value in given.items())


def _rgat(w: ExampleGraph) -> nn.Module:
    layer = w.library.RGATConv(FEATURES, OUT, RELATIONS, edge_dim=EDGE_FEATURES, heads=2)
    with torch.no_grad():
        layer.l2.fill_(1.0)  # Its own reset leaves the memory as it was found.
    return layer


def _performer(w: ExampleGraph) -> nn.Module:
    layer = w.library.PerformerAttention(FEATURES, heads=2)
    projection = layer.fast_attn.projection_matrix
    projection.copy_(w.normal("projection", *projection.shape))  # Random features, no parameter: drawn here instead.
    return layer


def _memory(w: ExampleGraph) -> nn.Module:
    parts = w.library.models.tgn
    layer = w.library.TGNMemory(NODES, 8, OUT, 8, parts.IdentityMessage(8, OUT, 8), parts.LastAggregator())
    layer._assoc.zero_()  # It is left as the memory was found.
    return InOrder(layer)


def _visnet(w: ExampleGraph) -> nn.Module:
    net = w.library.ViSNet(num_layers=2, hidden_channels=OUT, num_heads=2)
    net.representation_model.distance = Distances(w.edges())
    return net


def _neighbours(w: ExampleGraph) -> Callable[..., Any]:
    edges = w.edges("edge_index")

    def graph(pos: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return edges, (pos[edges[0]] - pos[edges[1]]).square().sum(-1).sqrt()

    return graph


def _pna(w: ExampleGraph) -> dict[str, Any]:
    return {
        "aggregators": ["mean", "min", "max", "std"],
        "scalers": ["identity", "amplification", "attenuation"],
        "deg": w.degrees(),
        "edge_dim": EDGE_FEATURES,
    }


def _relations(w: ExampleGraph) -> dict[Any, torch.Tensor]:
    return {kind: w.edges("/".join(kind), 48) for kind in _KINDS_OF_EDGES}


def _kinds(w: ExampleGraph) -> dict[str, torch.Tensor]:
    return {kind: w.normal(kind, NODES, FEATURES) for kind in _KINDS_OF_NODES}


def _hetero(w: ExampleGraph) -> dict[str, Any]:
    return {"x_dict": _kinds(w), "edge_index_dict": _relations(w)}


def _dense(w: ExampleGraph) -> dict[str, Any]:
    return {"x": w.normal("x", GRAPHS, _PER, FEATURES)}


def _features_and_edges(w: ExampleGraph) -> dict[str, Any]:
    return {"x": w.named("x"), "edge_index": w.edges()}


def _edge_features(w: ExampleGraph) -> dict[str, Any]:
    return {"edge_attr": w.named("edge_attr")}


def _with_edges(_: ExampleGraph) -> dict[str, Any]:
    return {"edge_dim": EDGE_FEATURES}


def _attending(_: ExampleGraph) -> dict[str, Any]:
    return {"edge_dim": EDGE_FEATURES, "heads": 2}


Entry = Callable[[ExampleGraph], Any]
#: Class -> arguments of its constructor (or the layer itself); sizes fill in what is missing.
CONSTRUCTED: Final[Mapping[str, Entry]] = {
    "ARGA": lambda w: {"encoder": w.library.GCN(FEATURES, OUT, 2), "discriminator": mlp(OUT, 1)},
    "ARGVA": lambda w: {"encoder": Gaussian(w.library), "discriminator": mlp(OUT, 1)},
    "AttentionalAggregation": lambda w: {"gate_nn": mlp(FEATURES, 1), "nn": mlp(FEATURES, OUT)},
    "CGConv": lambda w: {"dim": EDGE_FEATURES, "batch_norm": True},
    "CorrectAndSmooth": lambda w: {
        "num_correction_layers": 3, "correction_alpha": 0.8, "num_smoothing_layers": 3, "smoothing_alpha": 0.7
    },
    "DMoNPooling": lambda w: {"channels": [FEATURES, OUT]},
    "DeepGCNLayer": lambda w: InOrder(
        w.library.DeepGCNLayer(w.library.GENConv(FEATURES, FEATURES), nn.LayerNorm(FEATURES), nn.ReLU())
    ),
    "DeepGraphInfomax": lambda w: {
        "encoder": w.library.GCN(FEATURES, OUT, 2), "summary": _summary, "corruption": _corruption
    },
    "DeepSetsAggregation": lambda w: {"local_nn": mlp(FEATURES, OUT), "global_nn": mlp(OUT, OUT)},
    "DegreeScalerAggregation": lambda w: {
        "aggr": ["mean", "max"], "scaler": ["identity", "amplification"], "deg": torch.tensor([0] * 8 + [3])
    },
    "DenseGINConv": lambda w: {"nn": mlp(FEATURES, OUT)},
    "DirGNNConv": lambda w: {"conv": w.library.SAGEConv(FEATURES, OUT)},
    "DynamicEdgeConv": lambda w: {"nn": mlp(2 * FEATURES, OUT)},
    "EGConv": lambda w: {"aggregators": ["sum", "mean", "max"], "num_heads": 4},
    "EdgeConv": lambda w: {"nn": mlp(2 * FEATURES, OUT)},
    "EquilibriumAggregation": lambda w: {"num_layers": [OUT]},
    "FiLMConv": lambda w: {"num_relations": RELATIONS},
    "GAE": lambda w: {"encoder": w.library.GCN(FEATURES, OUT, 2)},
    "GATConv": _attending,
    "GATv2Conv": _attending,
    "GCN2Conv": lambda w: {"theta": 0.5, "layer": 1},
    "GENConv": _with_edges,
    "GINConv": lambda w: {"nn": mlp(FEATURES, OUT), "train_eps": True},
    "GINEConv": lambda w: {"nn": mlp(FEATURES, OUT), "edge_dim": EDGE_FEATURES},
    "GPSConv": lambda w: {"conv": w.library.GINConv(mlp(FEATURES, FEATURES)), "heads": 2},
    "GPSE": lambda w: {"dim_in": FEATURES, "dim_inner": OUT, "layers_mp": 3},
    "GeneralConv": lambda w: {"in_edge_channels": EDGE_FEATURES, "attention": True, "heads": 2},
    "GroupAddRev": lambda w: InOrder(
        w.library.GroupAddRev(w.library.GCNConv(FEATURES // 2, FEATURES // 2), num_groups=2, disable=True)
    ),
    "HANConv": lambda w: {"metadata": _METADATA, "heads": 2},
    "HEATConv": lambda w: {"edge_type_emb_dim": 8, "edge_attr_emb_dim": 8},
    "HGTConv": lambda w: {"metadata": _METADATA, "heads": 2},
    "HeteroConv": lambda w: {
        "convs": {kind: w.library.SAGEConv((FEATURES, FEATURES), OUT) for kind in _KINDS_OF_EDGES}
    },
    "HeteroDictLinear": lambda w: {"types": [*_KINDS_OF_NODES]},
    "HeteroJumpingKnowledge": lambda w: {
        "types": [*_KINDS_OF_NODES], "mode": "lstm", "channels": FEATURES, "num_layers": 3
    },
    "HypergraphConv": lambda w: {"use_attention": True, "heads": 2},
    "JumpingKnowledge": lambda w: {"mode": "lstm", "channels": FEATURES, "num_layers": 3},
    "MLPAggregation": lambda w: {"num_layers": 2, "hidden_channels": OUT, "norm": None},
    "NeuralFingerprint": lambda w: {"num_layers": 1},
    "MLP": lambda w: {"channel_list": [FEATURES, OUT, OUT, 8]},
    "MaskLabel": lambda w: {"out_channels": FEATURES},
    "MetaLayer": lambda w: {"edge_model": EdgeUpdate(), "node_model": NodeUpdate()},
    "MetaPath2Vec": lambda w: {
        "edge_index_dict": _relations(w), "metapath": [_KINDS_OF_EDGES[0], _KINDS_OF_EDGES[2]], "walk_length": 6,
        "context_size": 3, "num_nodes_dict": dict.fromkeys(_KINDS_OF_NODES, NODES),
    },
    "MultiAggregation": lambda w: {"aggrs": ["mean", "max", "std", "softmax"]},
    "NNConv": lambda w: {"nn": mlp(EDGE_FEATURES, FEATURES * OUT)},
    "Node2Vec": lambda w: {"edge_index": w.edges(), "walk_length": 6, "context_size": 3},
    "PNA": lambda w: {key: value for key, value in _pna(w).items() if key != "edge_dim"},
    "PNAConv": _pna,
    "PPFConv": lambda w: {"local_nn": mlp(FEATURES + 4, OUT), "global_nn": mlp(OUT, OUT)},
    "PatchTransformerAggregation": lambda w: {"patch_size": 4},
    "PerformerAttention": _performer,
    "PointGNNConv": lambda w: {
        "mlp_h": mlp(FEATURES, 3), "mlp_f": mlp(FEATURES + 3, FEATURES), "mlp_g": mlp(FEATURES, FEATURES)
    },
    "PointNetConv": lambda w: {"local_nn": mlp(FEATURES + 3, OUT), "global_nn": mlp(OUT, OUT)},
    "PowerMeanAggregation": lambda w: {"p": 2.0, "learn": True},
    "QFormer": lambda w: {"input_dim": FEATURES, "hidden_dim": OUT, "output_dim": FEATURES, "num_layers": 2},
    "QuantileAggregation": lambda w: {"q": [0.25, 0.75]},
    "RENet": lambda w: {"seq_len": 4},
    "RGATConv": _rgat,
    "ResGatedGraphConv": _with_edges,
    "SchNet": lambda w: {"num_interactions": 3, "hidden_channels": OUT, "interaction_graph": _neighbours(w)},
    "Sequential": lambda w: w.library.Sequential(
        "x, edge_index",
        [
            (w.library.GCNConv(FEATURES, OUT), "x, edge_index -> x"),
            nn.ReLU(),
            (w.library.GraphConv(OUT, OUT), "x, edge_index -> x"),
        ],
    ),
    "SetTransformerAggregation": lambda w: {"heads": 2, "num_seed_points": 2, "layer_norm": True},
    "SignedConv": lambda w: {"first_aggr": True},
    "SimpleConv": lambda w: {"aggr": "mean", "combine_root": "sum"},
    "SoftmaxAggregation": lambda w: {"learn": True},
    "TGNMemory": _memory,
    "TransformerConv": lambda w: {"edge_dim": EDGE_FEATURES, "heads": 2, "beta": True},
    "VGAE": lambda w: {"encoder": Gaussian(w.library)},
    "ViSNet": _visnet,
}  # fmt: skip

#: Class -> inputs, by the names of its forward pass.
GIVEN: Final[Mapping[str, Entry]] = {
    **dict.fromkeys((
        "ARGA", "ARGVA", "DeepGCNLayer", "DeepGraphInfomax", "GAE", "GroupAddRev", "Sequential", "VGAE"
    ), _features_and_edges),
    **dict.fromkeys((
        "CGConv", "GINEConv", "GENConv", "GeneralConv", "HEATConv", "NNConv", "PDNConv", "PNAConv", "RGATConv",
        "ResGatedGraphConv", "TransformerConv"
    ), _edge_features),
    **dict.fromkeys((
        "DMoNPooling", "DenseGATConv", "DenseGCNConv", "DenseGINConv", "DenseGraphConv", "DenseSAGEConv",
        "PerformerAttention", "PolynormerAttention", "QFormer", "SGFormerAttention"
    ), _dense),
    **dict.fromkeys(("HANConv", "HGTConv", "HeteroConv"), _hetero),
    "ChebConv": lambda w: {"batch": None, "edge_weight": None},
    "DNAConv": lambda w: {"x": w.normal("x", NODES, 3, FEATURES)},
    "FAConv": lambda w: {"edge_weight": None},
    "InnerProductDecoder": lambda w: {"z": w.normal("z", NODES, OUT)},
    "PairNorm": lambda w: {"batch_size": GRAPHS},
    "GMMConv": lambda w: {"edge_attr": w.positive("edge_attr", EDGES, 3)},
    "GPSENodeEncoder": lambda w: {"pos_enc": w.normal("pos_enc", NODES, FEATURES)},
    "HeteroDictLinear": lambda w: {"x_dict": _kinds(w)},
    "HeteroJumpingKnowledge": lambda w: {
        "xs_dict": {kind: [w.normal(f"{kind}.{i}", NODES, FEATURES) for i in range(3)] for kind in _KINDS_OF_NODES}
    },
    "HypergraphConv": lambda w: {
        "hyperedge_weight": w.positive("hyperedge_weight", 12),
        "hyperedge_attr": w.normal("hyperedge_attr", 12, FEATURES),
    },
    "JumpingKnowledge": lambda w: {"xs": [w.normal(f"x.{i}", NODES, FEATURES) for i in range(3)]},
    "LabelPropagation": lambda w: {"y": w.positive("y", NODES, 4)},
    "MaskLabel": lambda w: {"y": w.integers("y", 4, NODES), "mask": torch.arange(NODES) % 3 != 0},
    "MemPooling": lambda w: {"x": w.normal("x", GRAPHS, _PER, FEATURES), "batch": None},
    "MeshCNNConv": lambda w: {
        "edge_index": torch.stack(
            [torch.arange(NODES).repeat_interleave(4), w.integers("edge_index", NODES, 4 * NODES)]
        )
    },
    "MetaLayer": lambda w: {"edge_attr": w.named("edge_attr"), "batch": None},
    "MetaPath2Vec": lambda w: {"node_type": "author", "batch": w.integers("batch", NODES, 10)},
    "PositionalEncoding": lambda w: {"x": w.positive("x", NODES)},
    "SplineConv": lambda w: {"edge_attr": w.positive("edge_attr", EDGES, 3)},
    "TGNMemory": lambda w: {"x": w.integers("n_id", NODES, 10)},
    "TemporalEncoding": lambda w: {"x": w.positive("x", NODES)},
    "WLConv": lambda w: {"x": w.integers("x", KINDS, NODES)},
}  # fmt: skip
