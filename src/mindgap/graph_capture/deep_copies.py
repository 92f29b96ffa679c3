"""Copies programs and arguments deeply. What Python cannot copy is shared with the original, and named."""

from __future__ import annotations

import copy
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, cast

import torch
from torch.overrides import TorchFunctionMode

from mindgap.aten.tape import clone_strided
from mindgap.aten.torch_private.fake_tensors import storage_id
from mindgap.graph_capture.errors import CaptureError

#: Shared without a word: a run changes nothing of them.
_HARMLESS: Final = (types.ModuleType, type(threading.Lock()), type(threading.RLock()), Mapping)
_ATOMS: Final = (type(None), bool, int, float, complex, str, bytes, type, torch.Tensor)
#: Attributes of a module that hold its parts by name.
_TABLES: Final = ("_modules", "_parameters", "_buffers")
#: Attributes of a module that hold functions which run with it.
_HOOKS: Final = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
#: Bytes of memory around a view that are copied with it, so that other views of it share the copy.
_MOST_AROUND: Final = 64 << 20

Put = Callable[[torch.Tensor], torch.Tensor]


class TensorSwap(TorchFunctionMode):
    """Replaces the tensors during a deep copy by other tensors."""

    def __init__(self, put: Put) -> None:
        super().__init__()
        self._put = put

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        # A parameter copies itself by `clone` of its data.
        if func in (torch.Tensor.__deepcopy__, torch.Tensor.clone):  # pyright: ignore[reportUnknownMemberType] # untyped in PyTorch
            return self._put(args[0])
        return func(*args, **(kwargs or {}))


def deep_copy(value: Any, memo: dict[int, Any]) -> Any:
    """Copies deeply. Parts that Python cannot copy, such as files, locks and mappings that refuse writes, are shared.

    `memo`: as of `copy.deepcopy`; it has each shared part under the part's own id. Raises `CaptureError` where
    `TensorSwap` does.
    """
    while True:
        attempt = dict(memo)  # an attempt that fails leaves half-made copies
        try:
            made = copy.deepcopy(value, attempt)
        except (CaptureError, MemoryError):
            raise
        except Exception:  # what classes of users raise
            for _, part in uncopied(value, memo) or [("", value)]:
                key = id(part)
                memo[key] = _read_only_copy(part, memo) if isinstance(part, types.MappingProxyType) else part
            continue
        # By its id a memo keeps alive whose ids it has; another object may get the id of this one.
        memo.setdefault(id(memo), []).extend(attempt.pop(id(attempt), ()))
        copied = [each for key, each in attempt.items() if key not in memo and isinstance(each, torch.nn.Module)]
        memo.update(attempt)
        _rebind_hooks(copied, memo)
        return made


def _read_only_copy(held: Any, memo: dict[int, Any]) -> types.MappingProxyType[Any, Any]:
    return types.MappingProxyType(deep_copy(dict(held), memo))


def uncopied(value: Any, memo: Mapping[int, Any] | None = None, path: str = "") -> list[tuple[str, Any]]:
    """Returns path and value of the innermost parts that Python cannot copy."""
    with TensorSwap(lambda tensor: tensor):
        return [*_uncopied(value, dict(memo or {}), path, set())]


def shared_names(value: Any) -> list[str]:
    """Returns the path and the class of each part that a copy shares, and that a run may use up or change."""
    shared = [(path, part) for path, part in uncopied(value) if not isinstance(part, _HARMLESS)]
    return [f"{path} ({type(part).__name__})" for path, part in shared]


def fresh_copy(value: Any) -> Any:
    """Copies arguments for one run: tensors with their strides, gradient flag, subclass, and the memory that they
    share; containers; objects of any class with what they hold."""
    with torch.no_grad(), TensorSwap(_TensorCopies().of):
        return deep_copy(value, {})


def tensors_within(value: Any) -> list[torch.Tensor]:
    """Returns the tensors that a value is or holds, in objects of any class too."""
    tensors: list[torch.Tensor] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        tensors.append(tensor)
        return tensor

    with TensorSwap(note):
        deep_copy(value, {})
    return tensors


class _TensorCopies:
    """Copies tensors. Views of one memory become views of one copy of it."""

    def __init__(self) -> None:
        #: Each memory, which keeps its id, and its copy.
        self._memories: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the copy of a tensor."""
        plain = is_strided(tensor) and tensor.device.type != "meta" and not (tensor.is_conj() or tensor.is_neg())
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or not plain:
            return _copy_of_other_kind(tensor)
        old = tensor.untyped_storage()
        if old.nbytes() > tensor.nbytes + _MOST_AROUND:
            made = clone_strided(tensor.detach())
        else:
            _, new = self._memories.setdefault(storage_id(tensor), (old, old.clone()))
            made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            made.set_(new, tensor.storage_offset(), tensor.shape, tensor.stride())  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownMemberType] # typed too narrowly
        made = torch.nn.Parameter(made, False) if isinstance(tensor, torch.nn.Parameter) else made
        made.requires_grad_(tensor.requires_grad)
        vars(made).update(vars(tensor))
        return made


def is_strided(tensor: torch.Tensor) -> bool:
    """Whether a tensor is strided memory of plain numbers."""
    return tensor.layout == torch.strided and not tensor.is_quantized and not tensor.is_nested


def _copy_of_other_kind(tensor: torch.Tensor) -> torch.Tensor:
    """The copy of a tensor of a subclass or another layout."""
    try:
        return copy.deepcopy(tensor)
    except (RuntimeError, NotImplementedError):  # a result of an operator, to PyTorch
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)


def _uncopied(value: Any, memo: dict[int, Any], path: str, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, _ATOMS) or id(value) in memo or id(value) in seen:
        return
    seen.add(id(value))
    try:
        copy.deepcopy(value, dict(memo))
    except Exception:  # what classes of users raise
        inner = [
            each
            for name, part in _parts(value)
            for each in _uncopied(part, memo, ".".join(filter(None, (path, name))), seen)
        ]
        yield from inner or [(path, value)]


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    kind = cast("Any", type(value))
    if issubclass(kind, Mapping):
        yield from ((str(key), part) for key, part in value.items())
    elif issubclass(kind, (list, tuple, set, frozenset)):
        yield from ((str(number), part) for number, part in enumerate(value))
    held: dict[str, Any] = dict(getattr(value, "__dict__", {}))
    for one in kind.__mro__:
        slots: Any = vars(one).get("__slots__", ())
        held |= {name: getattr(value, name, None) for name in ((slots,) if isinstance(slots, str) else slots)}
    yield from (("" if name in _TABLES else name, part) for name, part in held.items())


def _rebind_hooks(modules: Iterable[Any], memo: Mapping[int, Any]) -> None:
    """Gives the hooks of copied modules cells with copies of what they refer to. `copy.deepcopy` shares functions, so
    that a hook would write to the original."""
    for module in modules:
        for table in _HOOKS:
            hooks: dict[Any, Any] = getattr(module, table, {})
            for key, hook in hooks.items():
                cells = hook.__closure__ if isinstance(hook, types.FunctionType) else None
                if not cells or not any(_content(cell) in memo for cell in cells):
                    continue
                copies = tuple(
                    types.CellType(memo[_content(cell)]) if _content(cell) in memo else cell for cell in cells
                )
                made = types.FunctionType(hook.__code__, hook.__globals__, hook.__name__, hook.__defaults__, copies)
                made.__kwdefaults__ = hook.__kwdefaults__
                hooks[key] = made


def _content(cell: types.CellType) -> int:
    """The id of what a cell holds; 0 for one that is not filled."""
    try:
        return id(cell.cell_contents)
    except ValueError:
        return 0
