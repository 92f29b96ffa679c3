"""All families of operators in one table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from mindgap.graph.operators.families import FAMILIES
from mindgap.graph.operators.operator_traits import Family, Traits

#: Namespaces whose packets mean what PyTorch's own packets of that name mean.
_NAMESPACES: Final = frozenset({"aten", "torch_nn"})
#: The traits of an operator that no family lists.
UNCLASSIFIED: Final = Traits()


def _merged() -> Family:
    merged: Family = {}
    for family in FAMILIES:
        for packet, facts in family.items():
            if packet in merged:
                raise ValueError(f"{packet} is in two families: {merged[packet].family} and {facts.family}")
            merged[packet] = facts
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
