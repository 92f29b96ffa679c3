"""Operator overloads: the type of the members of `torch.ops`, and the dispatch key of autograd."""

from torch._C import DispatchKey as DispatchKey
from torch._ops import OpOverload as OpOverload
