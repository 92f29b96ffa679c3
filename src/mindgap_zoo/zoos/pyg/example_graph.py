"""Makes the graph that layers of PyTorch Geometric run on, and tensors on it by the names of a layer's arguments.

24 nodes in 3 examples of 8; 96 edges, each within its example, no self-loops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import nn

from mindgap.graph import Integers, Normal, Recipe, Uniform
from mindgap.sources.weights.tensor_registry import TensorRegistry, seed_of

NODES: Final = 24
GRAPHS: Final = 3
EDGES: Final = 96
FEATURES: Final = 16
OUT: Final = 32
EDGE_FEATURES: Final = 8
RELATIONS: Final = 4
KINDS: Final = 3

#: What a constructor's arguments are given, by name.
SIZES: Final[Mapping[str, Any]] = {
    "in_channels": FEATURES, "channels": FEATURES, "out_channels": OUT, "hidden_channels": OUT, "num_layers": 3,
    "num_nodes": NODES, "num_relations": RELATIONS, "num_rels": RELATIONS, "num_node_types": KINDS,
    "num_edge_types": RELATIONS, "num_types": KINDS, "heads": 2, "num_heads": 2, "K": 3, "k": 4, "alpha": 0.2,
    "edge_dim": EDGE_FEATURES, "embedding_dim": OUT, "depth": 2, "groups": 4, "num_clusters": 4, "ratio": 0.5,
    "processing_steps": 3, "num_timesteps": 2, "kernel_size": 3, "dim": 3, "filter_size": 3, "num_classes": 4,
    "space_dimensions": 3, "propagate_dimensions": 8, "dim_emb": OUT, "dim_pe_in": FEATURES, "dim_pe_out": 8,
    "num_blocks": 2, "num_spherical": 3, "num_radial": 4, "num_bilinear": 4, "int_emb_size": 16, "basis_emb_size": 8,
    "out_emb_channels": 32, "hidden_node_channels": 32, "hidden_edge_channels": 32, "max_num_elements": 8,
}  # fmt: skip

#: What belongs to the graph and is no argument.
_FIXED: Final = frozenset(
    {
        "edge_index", "pos_edge_index", "neg_edge_index", "hyperedge_index", "edge_index_dict", "batch", "index",
        "type_vec", "node_type", "edge_type", "mask", "num_edges", "dim_size", "batch_size", "edge_label_index",
        "max_num_elements", "size",
    }
)  # fmt: skip


class ExampleGraph:
    """Draws tensors of the graph by name. `library`: `torch_geometric.nn`."""

    def __init__(self, library: Any, registry: TensorRegistry, seed: int, dtype: str) -> None:
        self.library, self._registry = library, registry
        self._seed, self._dtype = seed, dtype

    def named(self, name: str) -> Any:
        """Returns the value of a layer's argument, or None if the name is unknown."""
        maker = _NAMED.get(name)
        return None if maker is None else maker(self, name)

    def fixes(self, name: str) -> bool:
        """Whether the argument is part of the graph, a constant of the program."""
        return name in _FIXED

    def worth_giving(self, name: str, layer: nn.Module) -> bool:
        """Whether an optional argument is given because it changes what the layer computes."""
        if name == "edge_attr":
            return any(getattr(layer, attribute, None) for attribute in ("edge_dim", "in_edge_channels"))
        if name == "edge_index":
            return type(layer).__name__ == "PMLP"
        return name in ("edge_weight", "batch", "index", "edge_type", "type_vec")

    def draw(self, name: str, recipe: Callable[[int], Recipe], shape: tuple[int, ...], dtype: str = "") -> torch.Tensor:
        return self._registry.draw(recipe(seed_of(name, self._seed)), dtype or self._dtype, shape)

    def normal(self, name: str, *shape: int) -> torch.Tensor:
        return self.draw(name, Normal, shape)

    def positive(self, name: str, *shape: int) -> torch.Tensor:
        return self.draw(name, lambda seed: Uniform(seed, 0.1, 1.0), shape)

    def integers(self, name: str, most: int, *shape: int) -> torch.Tensor:
        return self.draw(name, lambda seed: Integers(seed, 0, most), shape, "int64")

    def edges(self, name: str = "edge_index", count: int = EDGES) -> torch.Tensor:
        """Draws edges (2, count) within examples of 8 nodes, sorted by source; every other node is equally likely."""
        inside = NODES // GRAPHS
        source = self.integers(f"{name}.source", NODES, count).sort().values
        step = 1 + self.integers(f"{name}.step", inside - 1, count)
        first = source - source % inside
        return torch.stack([source, first + (source % inside + step) % inside])

    def examples(self) -> torch.Tensor:
        """Returns the example that each node is in, ascending."""
        return torch.arange(GRAPHS).repeat_interleave(NODES // GRAPHS)

    def degrees(self) -> torch.Tensor:
        """Returns the number of nodes with 0, 1, 2… incoming edges."""
        return torch.bincount(torch.bincount(self.edges()[1], minlength=NODES))


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    """Returns a small network for layers that take one."""
    return nn.Sequential(nn.Linear(inputs, OUT), nn.ReLU(), nn.Linear(OUT, outputs))


_NAMED: Final[Mapping[str, Callable[[ExampleGraph, str], Any]]] = {
    **dict.fromkeys(("x", "x_0", "msg"), lambda w, n: w.normal(n, NODES, FEATURES)),
    "edge_index": lambda w, n: w.edges(n),
    **dict.fromkeys(("pos_edge_index", "neg_edge_index"), lambda w, n: w.edges(n, 48)),
    "hyperedge_index": lambda w, n: torch.stack([w.integers(f"{n}.node", NODES, 72), torch.arange(72) // 6]),
    "edge_attr": lambda w, n: w.normal(n, EDGES, EDGE_FEATURES),
    "edge_weight": lambda w, n: w.positive(n, EDGES),
    **dict.fromkeys(("batch", "index", "type_vec"), lambda w, n: w.examples()),
    "node_type": lambda w, n: w.integers(n, KINDS, NODES),
    "edge_type": lambda w, n: w.integers(n, RELATIONS, EDGES),
    **dict.fromkeys(("pos", "normal"), lambda w, n: w.normal(n, NODES, 3)),
    "z": lambda w, n: 1 + w.integers(n, 9, NODES),
    "adj": lambda w, n: w.positive(n, GRAPHS, NODES // GRAPHS, NODES // GRAPHS),
    **dict.fromkeys(("head_index", "tail_index"), lambda w, n: w.integers(n, NODES, 10)),
    "rel_type": lambda w, n: w.integers(n, RELATIONS, 10),
}
