"""Dispatch modes below autograd: one records the calls that reach a backend, one replays their random numbers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch

from mindgap.aten.torch_private.fake_tensors import FakeTensorMode, TorchDispatchMode
from mindgap.aten.torch_private.pre_dispatch import newest_autograd_node, running_autograd_node
from mindgap.graph_capture import random_operators
from mindgap.graph_capture.custom_operators import call_definition, definition_of
from mindgap.graph_capture.recording import norm_with_declared_writes
from mindgap.graph_capture.replay_check import DrawnTensors
from mindgap.graph_capture.value_table import ValueTable

#: Namespaces whose operators say something to PyTorch and compute nothing.
_EFFECT_FREE_NAMESPACES: Final = frozenset({"prim", "profiler"})


class KernelRecorder(TorchDispatchMode):
    """Records every call that reaches a backend: forward, backward and optimiser. Identifies tensors by their
    fakes."""

    def __init__(self, fake_mode: FakeTensorMode, forward_origin: Callable[[], str]) -> None:
        """`forward_origin` returns the origin of the running forward call."""
        super().__init__()  # pyright: ignore[reportUnknownMemberType] # untyped in PyTorch
        self.values = ValueTable(fake_mode, self._origin, lambda: self, self._unseen)
        self._forward_origin = forward_origin
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
        """Returns the program's line; in the backward pass, the line of the forward call that is differentiated."""
        running = running_autograd_node()
        if running is not None:
            return f"backward of {self._origins.get(running) or 'the loss'}"
        origin = self._forward_origin()
        self._origins.setdefault(
            newest_autograd_node(), origin
        )  # calls without a gradient follow under the same number
        return origin or "the training step"

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
                    return norm_with_declared_writes(bound)
        if func is torch.ops.aten.detach.default:
            # Without autograd it is the tensor itself.
            result = func(self.values.faked(args[0]))
            self.values.alias(result, args[0])
            return result
        if func in (torch.ops.aten.lift_fresh.default, torch.ops.aten.detach_.default):
            return self.values.faked(args[0])
        definition = definition_of(func)
        if definition is not None:
            with self, self.values.within(func):
                return call_definition(func, definition, args, kwargs)
        return self.values.record(func, args, kwargs)


class KernelReplayMode(TorchDispatchMode):
    """Gives the program the drawn tensors of the graph, in order, for its random calls. Leaves other calls alone.

    Programs without random calls need the mode too: PyTorch computes some gradients differently under a mode.
    """

    def __init__(self, pool: Sequence[torch.Tensor]) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] # untyped in PyTorch
        self._pool = DrawnTensors(pool)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace in _EFFECT_FREE_NAMESPACES or not random_operators.is_random(func, args, kwargs):
            return func(*args, **kwargs)
        return self._pool.lowered(func, args, kwargs, self)
