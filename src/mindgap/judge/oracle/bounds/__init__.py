"""How far from its exact result a correct implementation of an operator may land: one file of rules per family.

Comes in: a call with its operands and exact results in float64. Goes out: typical and hard error of each result. Knows
nothing of graphs, replays or platforms. `rules` holds what they are made of, `terms` the formulas that they share.
"""

from mindgap.judge.oracle.bounds import (
    activations as activations,
)
from mindgap.judge.oracle.bounds import (
    arithmetic as arithmetic,
)
from mindgap.judge.oracle.bounds import (
    attention as attention,
)
from mindgap.judge.oracle.bounds import (
    contractions as contractions,
)
from mindgap.judge.oracle.bounds import (
    distances as distances,
)
from mindgap.judge.oracle.bounds import (
    division as division,
)
from mindgap.judge.oracle.bounds import (
    fourier as fourier,
)
from mindgap.judge.oracle.bounds import (
    indexing as indexing,
)
from mindgap.judge.oracle.bounds import (
    interpolation as interpolation,
)
from mindgap.judge.oracle.bounds import (
    linear_algebra as linear_algebra,
)
from mindgap.judge.oracle.bounds import (
    losses as losses,
)
from mindgap.judge.oracle.bounds import (
    normalisation as normalisation,
)
from mindgap.judge.oracle.bounds import (
    reductions as reductions,
)
from mindgap.judge.oracle.bounds.rules import Bound, Site, bounds_of, exact, has_rule, perturbed, relative, rule

__all__ = ["Bound", "Site", "bounds_of", "exact", "has_rule", "perturbed", "relative", "rule"]
