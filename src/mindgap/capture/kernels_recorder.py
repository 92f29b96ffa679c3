"""The dispatch modes below autograd: one that writes down what a backend is handed, one that draws as it did."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import torch

from mindgap.capture import draw
from mindgap.capture.book import Book
from mindgap.capture.check import Pool
from mindgap.capture.dispatcher import backward_of, last_forward
from mindgap.torch_private.dispatch_modes import TorchDispatchMode
from mindgap.torch_private.fake_tensors import FakeTensorMode

#: Namespaces whose operators say something to PyTorch and compute nothing.
_TALK: Final = frozenset({"prim", "profiler"})


class KernelRecorder(TorchDispatchMode):
    """Records every call that reaches a backend, forward, backward and after, by the identity of fake tensors."""

    def __init__(self, fake_mode: FakeTensorMode, place: Callable[[], str]) -> None:
        """`place` says where the running forward call comes from."""
        super().__init__()  # pyright: ignore[reportUnknownMemberType] # untyped in PyTorch
        self.book = Book(fake_mode, self._origin, lambda: self, self._unseen)
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
        running = backward_of()
        if running is not None:
            return f"backward of {self._origins.get(running) or 'the loss'}"
        found = self._place()
        self._origins.setdefault(last_forward(), found)  # calls without a gradient follow under the same number
        return found or "the training step"

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self._deaf or func.namespace in _TALK:
            return func(*args, **kwargs)
        if draw.is_random(func, args, kwargs):
            return self.book.draw(func, args, kwargs)
        if func is torch.ops.aten.native_batch_norm.default:
            bound = draw.bind(func, args, kwargs)
            if bound["training"] and bound["running_mean"] is not None:
                with self:
                    return _norm_that_says_what_it_writes(bound)
        if func is torch.ops.aten.detach.default:
            # Without autograd it is the tensor itself.
            result = func(self.book.faked(args[0]))
            self.book.alias(result, args[0])
            return result
        if func in (torch.ops.aten.lift_fresh.default, torch.ops.aten.detach_.default):
            return self.book.faked(args[0])
        return self.book.record(func, args, kwargs)


@contextmanager
def seen_below(fake_mode: FakeTensorMode, recorder: KernelRecorder) -> Generator[None]:
    """Run a block under fake tensors, its calls recorded."""
    with fake_mode, recorder:
        yield


def _norm_that_says_what_it_writes(bound: draw.Bound) -> Any:
    """`native_batch_norm` writes running statistics that its schema calls unchanged."""
    names = ("input", "weight", "bias", "running_mean", "running_var", "training", "momentum", "eps")
    return torch.ops.aten._native_batch_norm_legit.default(*(bound[name] for name in names))


class KernelDrawing(TorchDispatchMode):
    """Gives the program the drawn tensors of the graph, in their order, and leaves every other call alone.

    It is in force for programs that draw nothing as well: some gradients are computed differently where a mode is.
    """

    def __init__(self, pool: Sequence[torch.Tensor]) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] # untyped in PyTorch
        self._pool = Pool(pool)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace in _TALK or not draw.is_random(func, args, kwargs):
            return func(*args, **kwargs)
        return self._pool.lowered(func, args, kwargs, self)
