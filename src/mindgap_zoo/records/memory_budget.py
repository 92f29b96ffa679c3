"""Estimates the memory that a record needs before any of it is taken.

Weights and inputs are counted from their shapes. Results of calls are counted by running each call on fake tensors
first.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import torch
from torch.utils.flop_counter import flop_registry

from mindgap.aten.torch_private.fake_tensors import FakeTensor, FakeTensorMode, TorchDispatchMode
from mindgap.graph import DTYPES, numpy_dtype
from mindgap.sources.source import one_line
from mindgap.sources.type_guards import is_list, is_sequence, is_table, is_tuple

_log = logging.getLogger(__name__)

#: Up to here tensors are drawn and the capture is proven by running it, which takes some 3.3 times as much.
MOST_DRAWN: Final = 1 << 30
#: Up to here a graph is captured from shapes alone. The largest record published takes 18 GiB.
MOST_DESCRIBED: Final = 64 << 30
#: Multiplications and additions of one run up to which the capture is proven, which takes eight runs.
MOST_WORK: Final = 100_000_000_000
#: What the calls of a record may hold at one time.
MOST_ALIVE: Final = 6 << 30
#: Values smaller than this are not worth a count.
_SMALL: Final = 4 << 20
#: Sizes and positions are all that a record computes without tensors.
_MOST_BITS: Final = 1024
_MOST_ITEMS: Final = 1 << 16


#: Their results have no more elements than their largest operand.
_NEVER_GROWS: Final = frozenset(
    f"{family}{name}"
    for family, names in {
        "operator.": "getitem floordiv iadd isub imul itruediv neg",
        "torch.nn.functional.": "relu dropout batch_norm layer_norm softmax silu group_norm",
        "torch._C._nn.": "gelu",
        "torch.": "relu sigmoid tanh transpose permute flatten softmax",
        "": "view reshape transpose permute flatten squeeze unsqueeze chunk split contiguous size dim item shape mean",
    }.items()
    for name in names.split()
)


_BROADCASTS: Final = frozenset(f"operator.{name}" for name in ("add", "sub", "mul", "truediv", "neg", "pow"))
_PRODUCTS: Final = frozenset({"torch._C._nn.linear", "torch.nn.functional.linear", "torch.matmul", "torch.bmm"})
#: Bytes of the widest element.
_WIDEST: Final = 16


class TooLarge(Exception):
    """A record needs more memory than it may have. The message gives the node and the amount."""


def entry_bytes(entry: Mapping[str, Any]) -> int:
    """Returns the bytes of one recorded tensor. Raises `ValueError` for an impossible shape or dtype."""
    shape, dtype = entry["shape"], entry["dtype"]
    if not is_list(shape) or not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in shape):
        raise ValueError(f"{entry['name']} has shape {str(shape)[:60]}")
    if dtype not in DTYPES:
        raise ValueError(f"{entry['name']} has dtype {str(dtype)[:60]!r}")
    return math.prod(shape) * numpy_dtype(str(dtype)).itemsize


def inputs_bytes(entries: Iterable[Mapping[str, Any]]) -> int:
    """Returns the bytes of all tensors of a record. Raises `TooLarge` if there are more than `MOST_DESCRIBED`."""
    total = sum(entry_bytes(entry) for entry in entries)
    if total > MOST_DESCRIBED:
        raise TooLarge(
            f"its weights and inputs take {readable_bytes(total)}, and {readable_bytes(MOST_DESCRIBED)} is the most"
        )
    return total


def readable_bytes(count: int) -> str:
    return f"{count / (1 << 30):,.1f} GiB"


def may_grow(target: str, operands: Sequence[Any]) -> bool:
    """Whether the result of a call can be large enough to need a count. `operands`: its arguments, in order."""
    tensors = [value for value in operands if isinstance(value, torch.Tensor)]
    if target in _NEVER_GROWS:
        return any(value.numel() * value.element_size() >= _SMALL for value in tensors)
    most = _most_elements(target, tensors)
    return most is None or most * _WIDEST >= _SMALL


def _most_elements(target: str, tensors: Sequence[torch.Tensor]) -> int | None:
    """Returns an upper bound of the result's elements for common calls, or None if the operands do not give one."""
    if target in _BROADCASTS and tensors:
        dims = max(tensor.dim() for tensor in tensors)
        padded = [(1,) * (dims - tensor.dim()) + tuple(tensor.shape) for tensor in tensors]
        return math.prod(max(sizes) for sizes in zip(*padded, strict=True))
    if target in _PRODUCTS and len(tensors) >= 2 and min(tensor.dim() for tensor in tensors[:2]) >= 2:
        left, right = tensors[:2]
        rows = left.numel() // max(left.shape[-1], 1)
        return rows * (right.shape[0] if target.endswith("linear") else right.numel() // max(right.shape[-2], 1))
    return None


def check_plain(name: str, target: str, operands: Sequence[Any]) -> None:
    """Refuses a node that would compute a huge Python number, list or text.

    Raises `TooLarge`, with the node's name, before it runs. `MemoryBudget` counts tensors.
    """
    if any(isinstance(operand, torch.Tensor) for operand in operands):
        return
    operation = target.rpartition(".")[2]
    operation = operation[1:] if operation in ("iadd", "imul", "ipow") else operation
    if operation not in ("add", "mul", "pow", "lshift", "mod", "setitem"):
        return
    if operation == "setitem" or any(isinstance(operand, str) for operand in operands):
        raise TooLarge(f"node {name} applies {target} to no tensor and no number")
    items = [len(operand) for operand in operands if is_sequence(operand)]
    whole = [abs(operand) for operand in operands if isinstance(operand, int)]
    made = (sum(items) if operation == "add" else math.prod(items + whole)) if items else 0
    bits = _bits(operation, whole) if not items and len(whole) == 2 else 0
    if made > _MOST_ITEMS or bits > _MOST_BITS:
        raise TooLarge(f"at node {name} {target} gives {f'{made:,} values' if made else f'a number of {bits:,} bits'}")


def _bits(operation: str, whole: Sequence[int]) -> int:
    """Returns an upper bound of the bits in the result of an operator on two integers."""
    left, right = whole
    if operation == "pow":
        return left.bit_length() * right if left > 1 else 1
    if operation == "lshift":
        return left.bit_length() + right
    return left.bit_length() + right.bit_length()


class OperationCount(TorchDispatchMode):
    """Counts the multiplications and additions of matrix products and convolutions."""

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] # untyped in PyTorch
        self.done = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        result = func(*args, **given)
        formula = _FORMULAS.get(func.overloadpacket)
        # A budget's calls on tensors without data pass here too, and do no work.
        tensors = (arg for arg in args if isinstance(arg, torch.Tensor))
        if formula is not None and not any(isinstance(arg, FakeTensor) or arg.is_meta for arg in tensors):
            self.done += int(formula(*args, **given, out_val=result))
        return result


def _attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: Any, **__: Any) -> int:
    """Counts two batched products: [b, h, n, d] by [b, h, m, d], and [b, h, n, m] by [b, h, m, e]."""
    rows = math.prod(query.shape[:-1]) * key.shape[-2]
    return 2 * rows * (query.shape[-1] + value.shape[-1])


_FORMULAS: Final[dict[Any, Callable[..., int]]] = {
    **flop_registry,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _attention,
}


class MemoryBudget:
    """Refuses a call before it runs if its result would not fit with the values that are alive."""

    def __init__(self) -> None:
        self._mode = FakeTensorMode()

    def check(
        self, name: str, call: Callable[[Mapping[str, Any]], Any], alive: Mapping[str, Any], used: set[str]
    ) -> None:
        """Runs a step on fake tensors and compares its result with the budget. Raises `TooLarge` with the step's name.

        `call` takes the operands (`used`, part of `alive`) and runs the step. A step that cannot run on fake tensors
        passes: its result is no larger than its operands.
        """
        try:
            operands = {key: self._faked(alive[key]) for key in used}
            with self._mode:
                made = call(operands)
        except Exception as error:  # a step may raise anything on fake tensors; PyTorch's checks are many
            _log.debug("node %s is not counted, it raised on fake tensors: %s", name, one_line(error))
            return
        needed = sum(_storages(made, {storage._cdata for storage in _memory(operands)}))
        if needed < _SMALL:
            return
        total = needed + sum(_storages(alive, set()))
        if total > MOST_ALIVE:
            raise TooLarge(
                f"at node {name} its values take {readable_bytes(total)}, and {readable_bytes(MOST_ALIVE)} is the most"
            )

    def _faked(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._mode.from_tensor(value.detach(), static_shapes=True)
        if is_list(value):
            return [self._faked(item) for item in value]
        return tuple(self._faked(item) for item in value) if is_tuple(value) else value


def _memory(value: Any) -> Generator[Any]:
    if isinstance(value, torch.Tensor):
        with suppress(NotImplementedError, RuntimeError):  # inside a recorded `vmap` a tensor shows no memory
            yield value.untyped_storage()
    elif is_sequence(value):
        for item in value:
            yield from _memory(item)
    elif is_table(value):
        for item in value.values():
            yield from _memory(item)


def _storages(value: Any, known: set[int]) -> Generator[int]:
    """Yields the bytes of each storage of the tensors in `value`, once."""
    for storage in _memory(value):
        identity = storage._cdata
        if identity not in known:
            known.add(identity)
            yield storage.nbytes()
