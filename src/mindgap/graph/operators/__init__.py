"""Facts about operators, by family: `traits("aten.relu.default").non_smooth`.

Comes in: the name of an operator. Goes out: its `Traits`. Knows no framework. What
PyTorch's schemas hold (what is written to, what may alias) is in `mindgap.aten.operators`. Error bounds are in
`mindgap.judge.oracle`.
"""

from mindgap.graph.operators.operator_traits import Family, Traits
from mindgap.graph.operators.registry import FAMILIES, TRAITS, UNCLASSIFIED, is_activation, traits

__all__ = ["FAMILIES", "TRAITS", "UNCLASSIFIED", "Family", "Traits", "is_activation", "traits"]
