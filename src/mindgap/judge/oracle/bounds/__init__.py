"""How far from its exact result a correct implementation of an operator may land: one file of rules per family.

Comes in: a call with its operands and exact results in float64. Goes out: typical and hard error of each result. Knows
nothing of graphs, replays or platforms. `rules` holds what they are made of, `terms` the formulas that they share.
"""

from mindgap.judge.oracle.bounds import (
    activations as activations,
    arithmetic as arithmetic,
    attention as attention,
    contractions as contractions,
    distances as distances,
    division as division,
    fourier as fourier,
    indexing as indexing,
    interpolation as interpolation,
    linear_algebra as linear_algebra,
    losses as losses,
    normalisation as normalisation,
    reductions as reductions,
)
from mindgap.judge.oracle.bounds.rules import Bound, Site, bounds_of, exact, has_rule, perturbed, relative, rule

__all__ = ["Bound", "Site", "bounds_of", "exact", "has_rule", "perturbed", "relative", "rule"]
