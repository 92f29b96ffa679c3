"""`topk(sorted=False)`: the order of its elements is any platform's own, and its values stand where its indices say."""

from __future__ import annotations

from typing import Any

import torch

from mindgap.aten.operators import packet_of
from mindgap.graph import Node


def _argument(node: Node, name: str, position: int, default: Any) -> Any:
    return dict(node.kwargs).get(name, node.args[position] if len(node.args) > position else default)


def in_any_order(node: Node) -> bool:
    """Whether the node's elements may be in any order."""
    return packet_of(node.op) == "topk" and _argument(node, "sorted", 4, True) is False


def _dim(node: Node) -> int:
    return int(_argument(node, "dim", 2, -1))


def best_first(node: Node, x: torch.Tensor, dim: int) -> torch.Tensor:
    """The order in which these elements would be if they were sorted."""
    return torch.sort(x, dim=dim, descending=bool(_argument(node, "largest", 3, True)), stable=True).indices


def in_order_of(node: Node, values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """A platform's values in the order of others: the largest stands where the largest of those stands, and so on."""
    if values.shape != like.shape or values.dim() == 0:
        return values
    dim = _dim(node)
    ranked = values.gather(dim, best_first(node, values, dim))
    return torch.empty_like(ranked).scatter_(dim, best_first(node, like, dim), ranked)


def shuffled(node: Node, results: list[Any], generator: torch.Generator) -> list[Any]:
    """Values and indices in another order that the operator may give."""
    if not isinstance(results[0], torch.Tensor) or results[0].dim() == 0:
        return results
    dim = _dim(node)
    order = torch.rand(results[0].shape, generator=generator).argsort(dim)
    return [each.gather(dim, order) for each in results]


def at_chosen(node: Node, results: list[Any], chosen: torch.Tensor) -> list[Any]:
    """The results with the values in the order of the chosen indices.

    An index that is not among the results', since rounding chose another, takes the place of one that is not chosen.
    """
    values, own = results
    if not isinstance(values, torch.Tensor) or values.dim() == 0 or chosen.shape != own.shape:
        return results
    dim = _dim(node)
    v, o, c = (each.movedim(dim, -1).contiguous() for each in (values, own, chosen))
    by_index = o.argsort(-1)
    ordered = o.gather(-1, by_index)
    near = torch.searchsorted(ordered, c).clamp_max(ordered.shape[-1] - 1)
    known = ordered.gather(-1, near) == c
    place = by_index.gather(-1, near)
    taken = torch.zeros_like(place).scatter_add_(-1, place, known.to(place.dtype))
    free = torch.sort(taken, dim=-1, stable=True).indices
    rank = ((~known).cumsum(-1) - 1).clamp_min(0)
    place = torch.where(known, place, free.gather(-1, rank))
    return [v.gather(-1, place).movedim(-1, dim), own]
