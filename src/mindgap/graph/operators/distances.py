"""Distances between vectors, and their gradients."""

from __future__ import annotations

from mindgap.graph.operators.operator_traits import Traits, family

DISTANCES = family(
    "distances",
    ("_cdist_forward _euclidean_dist cdist", Traits(contracts=True, intermediates="squares")),
    ("_cdist_backward", Traits(contracts=True)),
    ("cosine_similarity", Traits(intermediates="squares", rounds_each_step=True)),
    ("pairwise_distance", Traits(intermediates="squares")),
    ("_pdist_backward _pdist_forward dist pdist", Traits()),
)
