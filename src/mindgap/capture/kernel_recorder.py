"""The dispatch modes below autograd: one that writes down what a backend is handed, one that draws as it did."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch

from mindgap.capture import random_operators
from mindgap.capture.replay_check import DrawnTensors
from mindgap.capture.value_table import ValueTable
from mindgap.torch_private.dispatch_modes import TorchDispatchMode
from mindgap.torch_private.fake_tensors import FakeTensorMode
from mindgap.torch_private.pre_dispatch import newest_autograd_node, running_autograd_node

#: Namespaces whose operators say something to PyTorch and compute nothing.
_EFFECT_FREE_NAMESPACES: Final = frozenset({"prim", "profiler"})


class KernelRecorder(TorchDispatchMode):
    """Records every call that reaches a backend, forward, backward and after, by the identity of fake tensors."""

    def __init__(self, fake_mode: FakeTensorMode, place: Callable[[], str]) -> None:
        """`place` says where the running forward call comes from."""
        super().__init__()  # pyright: ignore[reportUnknownMemberType] # untyped in PyTorch
        self.values = ValueTable(fake_mode, self._origin, lambda: self, self._unseen)
        self._place = place
        self._origins: dict[int, str] = {}
        self._deaf = False

    @contextmanager
    def _unseen(self) -> Generator[None]:
        before, self._deaf = self._deaf, True
        try:
            yield
        finally:
            self._deaf = before

    def _origin(self) -> str:
        """The program's line; in the backward pass that of the forward call whose gradient is taken."""
        running = running_autograd_node()
        if running is not None:
            return f"backward of {self._origins.get(running) or 'the loss'}"
        found = self._place()
        self._origins.setdefault(newest_autograd_node(), found)  # calls without a gradient follow under the same number
        return found or "the training step"

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._deaf or func.namespace in _EFFECT_FREE_NAMESPACES:
            return func(*args, **kwargs)
        if random_operators.is_random(func, args, kwargs):
            return self.values.draw(func, args, kwargs)
        if func is torch.ops.aten.native_batch_norm.default:
            bound = random_operators.bind(func, args, kwargs)
            if bound["training"] and bound["running_mean"] is not None:
                with self:
                    return _norm_with_declared_writes(bound)
        if func is torch.ops.aten.detach.default:
            # Without autograd it is the tensor itself.
            result = func(self.values.faked(args[0]))
            self.values.alias(result, args[0])
            return result
        if func in (torch.ops.aten.lift_fresh.default, torch.ops.aten.detach_.default):
            return self.values.faked(args[0])
        return self.values.record(func, args, kwargs)


@contextmanager
def record_kernels(fake_mode: FakeTensorMode, recorder: KernelRecorder) -> Generator[None]:
    """Run a block under fake tensors, its calls recorded."""
    with fake_mode, recorder:
        yield


def _norm_with_declared_writes(bound: random_operators.Bound) -> Any:
    """`native_batch_norm` writes running statistics that its schema calls unchanged."""
    names = ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps")
    return torch.ops.aten._native_batch_norm_legit.default(*(bound[name] for name in names))


class KernelReplayMode(TorchDispatchMode):
    """Gives the program the drawn tensors of the graph, in their order, and leaves every other call alone.

    It is in force for programs that draw nothing as well: some gradients are computed differently where a mode is.
    """

    def __init__(self, pool: Sequence[torch.Tensor]) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] # untyped in PyTorch
        self._pool = DrawnTensors(pool)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace in _EFFECT_FREE_NAMESPACES or not random_operators.is_random(func, args, kwargs):
            return func(*args, **kwargs)
        return self._pool.lowered(func, args, kwargs, self)
