"""Dispatch modes: Python code that sees each operator call of a block, and the switches that go with them."""

from torch._dispatch.python import enable_pre_dispatch as enable_pre_dispatch
from torch._dispatch.python import enable_python_dispatcher as enable_python_dispatcher
from torch._subclasses.functional_tensor import FunctionalTensorMode as FunctionalTensorMode
from torch._subclasses.functional_tensor import dispatch_functionalize as dispatch_functionalize
from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
