"""Operator overloads: the type of the members of `torch.ops`, their schemas, and the dispatch key of autograd."""

from torch import FunctionSchema
from torch._C import DispatchKey as DispatchKey
from torch._ops import OpOverload as OpOverload


def schema_of(overload: OpOverload) -> FunctionSchema:
    """Returns the schema of an overload: its arguments and returns."""
    return overload._schema  # pyright: ignore[reportPrivateUsage] # there is no public way to a schema
