"""Bounds of the gradients of average pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mindgap.judge.oracle.bounds.rules import Bound, Site, rule
from mindgap.judge.oracle.bounds.terms import (
    sum_of_terms,
)


@rule("avg_pool2d_backward", "avg_pool3d_backward", "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def averaged_back(site: Site) -> list[Bound | None]:
    """Each gradient divided by its window's size, then added where windows overlap."""
    g, y = site.args[0], site.results[0]
    overlap = 1.0
    if site.call.packet.startswith("avg"):
        kernel, stride = site.args[2], site.arg(3, "stride", []) or site.args[2]
        rank = len(y.shape) - (2 if site.call.packet == "avg_pool2d_backward" else 3)
        sides = zip(_spread(kernel, rank), _spread(stride, rank), strict=False)
        overlap = float(math.prod(math.ceil(k / max(s, 1)) for k, s in sides))
    elif g.numel():
        overlap = 2.0 ** (2 if "2d" in site.call.packet else 3)
    hard = site.again(g.abs()).abs()
    # Where windows overlap, each addition may round to a narrow dtype.
    found = sum_of_terms(site, y, hard, hard, overlap, site.u if overlap <= 1 else max(site.u, site.u_out))
    return [Bound(found.typical + 2 * site.u * hard, found.hard + 2 * site.u * hard, found.hazard)]


def _spread(sizes: Sequence[int], rank: int) -> list[int]:
    return list(sizes) * max(rank, 1) if len(sizes) == 1 else list(sizes)
