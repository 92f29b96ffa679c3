"""Computes float64 products with large weights a block of columns at a time.

A float64 copy of a weight of a large model leaves the cache, and making it takes longer than its product with a few
rows. Same sums, of blocks of columns: what float64 makes of another order is far below any rounding that is judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from mindgap.graph import Graph, Node, Ref
from mindgap.judge.oracle.evaluation.formats import FORMATS, widen

#: Elements of a weight that is worked on in blocks, and of a block.
LARGE: Final = 1 << 20
_BLOCK: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class LargeWeight:
    """Where a call has its operands. `transposed`: rows of the weight are columns of the result."""

    left: int
    weight: int
    bias: int | None
    transposed: bool = False

    def blocks(self, args: Sequence[Any]) -> Iterator[torch.Tensor]:
        """The weight's columns in float64, a block at a time."""
        columns: torch.Tensor = args[self.weight].T if self.transposed else args[self.weight]
        size, count = max(_BLOCK // max(columns.shape[0], 1), 1), columns.shape[1]
        for start in range(0, count, size):
            yield widen(columns.narrow(1, start, min(size, count - start)))

    def product(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor:
        """The result of the call in float64. `args`: all but the weight in float64."""
        joined = torch.cat([args[self.left] @ block for block in self.blocks(args)], -1)
        return self.completed(joined, None if self.bias is None else args[self.bias], kwargs)

    def completed(self, product: torch.Tensor, bias: torch.Tensor | None, kwargs: Mapping[str, Any]) -> torch.Tensor:
        """The product with its factor and the term that is added to it."""
        alpha, beta = kwargs.get("alpha", 1), kwargs.get("beta", 1)
        product = product if alpha == 1 else alpha * product
        # With a factor of 0 a term is not looked at: NaN in it stays there.
        return product if bias is None or beta == 0 else product + (bias if beta == 1 else beta * bias)


def large_weight(graph: Graph, node: Node, packet: str) -> LargeWeight | None:
    """Where a product has its large weight; None for other operators, and for a weight that stays in the cache."""
    bias = node.args[2] if len(node.args) > 2 else None
    places = {
        "mm": LargeWeight(0, 1, None),
        "addmm": LargeWeight(1, 2, 0),
        "linear": LargeWeight(0, 1, None if bias is None else 2, transposed=True),
    }
    place = places.get(packet)
    if place is None or len(node.args) <= place.weight or not set(dict(node.kwargs)) <= {"alpha", "beta"}:
        return None
    weight = node.args[place.weight]
    spec = graph.values[weight.index] if isinstance(weight, Ref) else None
    real = spec is not None and spec.dtype in FORMATS and not spec.dtype.startswith("complex")
    return place if spec is not None and real and len(spec.shape) == 2 and spec.numel >= LARGE else None
