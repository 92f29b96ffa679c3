"""All families of operators in one table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from mindgap.graph.operators.activations import ACTIVATIONS
from mindgap.graph.operators.arithmetic import ARITHMETIC
from mindgap.graph.operators.attention import ATTENTION
from mindgap.graph.operators.casts import CASTS
from mindgap.graph.operators.comparisons import COMPARISONS
from mindgap.graph.operators.contractions import CONTRACTIONS
from mindgap.graph.operators.creation import CREATION
from mindgap.graph.operators.distances import DISTANCES
from mindgap.graph.operators.division import DIVISION
from mindgap.graph.operators.fourier import FOURIER
from mindgap.graph.operators.indexing import INDEXING
from mindgap.graph.operators.integers import INTEGERS
from mindgap.graph.operators.interpolation import INTERPOLATION
from mindgap.graph.operators.linear_algebra import LINEAR_ALGEBRA
from mindgap.graph.operators.losses import LOSSES
from mindgap.graph.operators.movement import MOVEMENT
from mindgap.graph.operators.normalisation import NORMALISATION
from mindgap.graph.operators.operator_traits import Family, Traits
from mindgap.graph.operators.ordering import ORDERING
from mindgap.graph.operators.pooling import POOLING
from mindgap.graph.operators.quantisation import QUANTISATION
from mindgap.graph.operators.random import RANDOM
from mindgap.graph.operators.recurrent import RECURRENT
from mindgap.graph.operators.reductions import REDUCTIONS
from mindgap.graph.operators.rounding import ROUNDING
from mindgap.graph.operators.special import SPECIAL

FAMILIES: Final[tuple[Family, ...]] = (
    ACTIVATIONS,
    ARITHMETIC,
    ATTENTION,
    CASTS,
    COMPARISONS,
    CONTRACTIONS,
    CREATION,
    DISTANCES,
    DIVISION,
    FOURIER,
    INDEXING,
    INTEGERS,
    INTERPOLATION,
    LINEAR_ALGEBRA,
    LOSSES,
    MOVEMENT,
    NORMALISATION,
    ORDERING,
    POOLING,
    QUANTISATION,
    RANDOM,
    RECURRENT,
    REDUCTIONS,
    ROUNDING,
    SPECIAL,
)
#: Namespaces whose packets mean what PyTorch's own packets of that name mean.
_NAMESPACES: Final = frozenset({"aten", "torch_nn"})
#: The traits of an operator that no family lists.
UNCLASSIFIED: Final = Traits()


def _merged() -> Family:
    merged: Family = {}
    for family in FAMILIES:
        for packet, found in family.items():
            if packet in merged:
                raise ValueError(f"{packet} is in two families: {merged[packet].family} and {found.family}")
            merged[packet] = found
    return merged


#: Every classified operator, by packet, or packet and overload.
TRAITS: Final[Mapping[str, Traits]] = MappingProxyType(_merged())


@cache
def traits(op: str) -> Traits:
    """The traits of an operator: an overload (`aten.relu_.default`) or a packet of ATen (`relu`).

    An in-place operator has those of its functional form. `UNCLASSIFIED` where no family lists it.
    """
    namespace, packet, overload = op.split(".") if op.count(".") == 2 else ("aten", op, "")
    if namespace not in _NAMESPACES:
        return UNCLASSIFIED
    functional = packet.removesuffix("_") if not packet.endswith("__") else packet
    names = (f"{packet}.{overload}", packet, functional)
    return next((TRAITS[name] for name in names if name in TRAITS), UNCLASSIFIED)


def is_activation(op: str) -> bool:
    """Returns whether an overload or a packet is an activation function, and not its gradient."""
    return traits(op).family == "activations" and "_backward" not in op
