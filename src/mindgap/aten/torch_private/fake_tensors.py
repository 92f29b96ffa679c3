"""Fake tensors: tensors with a shape, dtype and device, and no data."""

from typing import Final

from torch._subclasses.fake_tensor import DataDependentOutputException as DataDependentOutputException
from torch._subclasses.fake_tensor import DynamicOutputShapeException as DynamicOutputShapeException
from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
from torch._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode
from torch._subclasses.fake_tensor import unset_fake_temporarily as unset_fake_temporarily

#: Loggers that print a traceback for each operator that has no fake implementation.
FAKE_TENSOR_LOGGERS: Final = ("torch._subclasses.fake_tensor", "torch._subclasses.fake_impls")
