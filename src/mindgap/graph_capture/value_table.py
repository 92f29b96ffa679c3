"""Keeps the values of a recording: a number for each fake tensor, shared memory, and which values are constants.

The dispatch modes that see calls write into it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

import torch

from mindgap.aten.fake_call import fake_call
from mindgap.aten.operators import facts, overload_name
from mindgap.aten.tape import flatten_result
from mindgap.aten.tensors import to_numpy
from mindgap.aten.torch_private.fake_tensors import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    storage_id,
    unset_fake_temporarily,
)
from mindgap.aten.torch_private.pre_dispatch import tensors_in
from mindgap.graph import Arg, Recipe, Ref, Role
from mindgap.graph.decisions import outcome_of
from mindgap.graph.graph import DecisionKind
from mindgap.graph_capture import random_operators
from mindgap.graph_capture.actual_values import ActualValues, spec_of_fake
from mindgap.graph_capture.data_dependent import READS, SIZED_BY, deciding_tensors, gives_tensors
from mindgap.graph_capture.deep_copies import is_strided
from mindgap.graph_capture.errors import CaptureError
from mindgap.graph_capture.origin import current_expression, current_line
from mindgap.graph_capture.recording import (
    CallRecording,
    RecordedCall,
    RecordedDecision,
    RecordedInput,
    is_idle,
    plain_argument,
)

#: Operators of one device or of one library: a portable graph holds none.
_DEVICE_BOUND: Final = (
    "mkldnn", "_for_cpu", "cudnn", "miopen", "_native_multi_head", "_transformer_encoder_layer", "_efficient_attention",
    "_flash_attention", "onednn", "_mps_", "_for_mps", "_scaled_dot_product_fused", "_overrideable", "quantized.",
)  # fmt: skip
#: What a refusal adds where a graph of one path can be captured.
PATH_TAKEN_HELPS: Final = "; --path-taken captures the path that these arguments take"
#: Decisions that a graph holds, at most.
_DECISIONS: Final = 2000


class ValueTable:
    """Records the calls of one dispatch mode and numbers their values.

    `place` returns the origin of the running call. `seen` puts the mode back in force for a block; `unseen` suspends
    it.
    """

    def __init__(
        self, fake_mode: FakeTensorMode, place: Callable[[], str], seen: Callable[[], AbstractContextManager[Any]],
        unseen: Callable[[], AbstractContextManager[Any]],
    ) -> None:  # fmt: skip
        self.recorded = CallRecording()
        self._fake_mode = fake_mode
        self._origin = place
        self._seen = seen
        self._unseen = unseen
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []
        self._slots = 0
        self._memory: dict[int, list[tuple[int, torch.Tensor]]] = {}
        self._inputs_of: dict[int, set[int]] = {}
        self._variable: set[int] = set()
        self._actual = ActualValues(self.recorded)
        self._within = ""
        #: Values of arguments and parameters may decide: they are computed, and the decisions noted.
        self.follows = False
        #: The operator that decides (`torch.cond`), in place of the user's expression; "" for Python code.
        self.construct = ""

    # What the program hands over and takes back.

    def add_input(
        self, real: torch.Tensor | None, fake: torch.Tensor, role: Role, name: str, recipe: Recipe | None = None
    ) -> None:
        """Adds a tensor as the next input. `real` is None if its recipe gives the values."""
        index = len(self.recorded.inputs)
        self.recorded.inputs.append(RecordedInput(real, fake, role, name, recipe))
        memory = storage_id(fake)
        self._inputs_of.setdefault(memory, set()).add(index)
        self._name(fake, -(index + 1))
        if role not in ("constant", "buffer"):
            self._variable.add(memory)

    def number(self, tensor: torch.Tensor) -> int:
        """Returns the value number of a tensor of the program."""
        known = self._arg(tensor)
        assert isinstance(known, Ref)
        return known.index

    def alias(self, tensor: torch.Tensor, of: torch.Tensor) -> None:
        """Gives `tensor` the number of `of`: they are the same value in a graph."""
        self._numbers[id(tensor)] = self.number(of)
        self._alive.append(tensor)

    # Calls.

    def draw(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Records a random call as arithmetic on drawn tensors."""
        plain = {k: None if k == "generator" else v for k, v in kwargs.items()}
        like = func(*args, **plain) if random_operators.needs_result(func) else None
        with self.within(func), self._seen():
            return random_operators.lower(func, args, plain, like, self._drawn)

    @contextmanager
    def within(self, func: Any) -> Generator[None]:
        """Names `func`, or the operator around it, in the origin of the calls inside the block, its parts."""
        outer, self._within = self._within, self._within or overload_name(func)
        try:
            yield
        finally:
            self._within = outer

    def _drawn(self, make: Callable[[int], Recipe], shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        count = sum(source.role == "random" for source in self.recorded.inputs)
        return self.made("random", f"random.{count}", make(count + 1), shape, dtype)

    def made(
        self, role: Role, name: str, recipe: Recipe, shape: tuple[int, ...], dtype: torch.dtype, readable: bool = False
    ) -> torch.Tensor:  # fmt: skip
        """Adds an input that a recipe gives and that is no tensor of the program.

        `readable`: its values are fixed, and Python code may decide by them.
        """
        with self._unseen():
            fake = torch.empty(shape, dtype=dtype)
        self.add_input(None, fake, role, name, recipe)
        if not readable:
            self._variable.add(storage_id(fake))
        return fake

    def record(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Records a call and returns its result. Raises `CaptureError` for operands or results that no graph holds."""
        name = overload_name(func)
        noted = tuple(self._arg(arg) for arg in args)
        named = tuple(sorted((key, self._arg(arg)) for key, arg in kwargs.items() if not is_idle(key, arg)))
        fixed = all(storage_id(fake) not in self._variable for fake in self._fakes((args, kwargs)))
        # The call runs on fakes: a tensor of the program that is real is a constant and has one.
        real_args, real_kwargs = _swap(args, self.faked), _swap(kwargs, self.faked)
        deciding: list[int] = []
        try:
            result = fake_call(func, real_args, real_kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            if isinstance(error, DataDependentOutputException) and not gives_tensors(func):
                return self._scalar(func, noted, named, fixed, name)
            result, deciding = self._sized(func, noted, named, real_args)
        except RuntimeError as error:
            # The error of C++ code that reads the memory of a fake tensor.
            if not self.follows or "data is not allocated" not in str(error):
                raise
            result, deciding = self._sized(func, noted, named, real_args)
        flat = flatten_result(result)
        if not any(isinstance(slot, torch.Tensor) for slot in flat) and flat:
            if name in READS:
                self.recorded.reads.append(result)
            return result
        if torch.get_default_dtype() != torch.float32 and "dtype" not in kwargs:
            named = tuple(sorted((*named, *self._default_dtype(func, args, kwargs, flat))))
        self._append(func, noted, named, flat, fixed, random_operators.bind(func, real_args, real_kwargs))
        if deciding:
            kind, decided = deciding_tensors(name, [real_args[position] for position in deciding], flat)
            for tensor in decided:
                self.decide(tensor, kind)
        return result

    def _default_dtype(self, func: Any, args: Any, kwargs: Any, flat: list[Any]) -> tuple[tuple[str, Arg], ...]:
        """Names the dtype of a result that is the default one, since workers have another. Raises `CaptureError`."""
        default, names = torch.get_default_dtype(), [each.name for each in func._schema.arguments]
        floats = any(each.is_floating_point() or each.is_complex() for each in self._fakes((args, kwargs)))
        if floats or "dtype" in names[: len(args)] or all(each is None or each.dtype != default for each in flat):
            return ()
        if "dtype" not in names:
            raise CaptureError(f"{func} of other dtypes gives the default one: use .to({default})", current_line())
        return (("dtype", plain_argument(default)),)

    def _append(
        self, func: Any, args: tuple[Arg, ...], kwargs: tuple[tuple[str, Arg], ...], flat: list[Any], fixed: bool,
        bound: Mapping[str, Any],
    ) -> None:  # fmt: skip
        name = overload_name(func)
        if any(word in name for word in _DEVICE_BOUND):
            raise CaptureError(f"{name} exists on one device only; use the plain operator", current_line())
        origin = self._origin()
        if self._within:
            origin = f"{origin} in {self._within}".strip()
        slots = tuple(None if slot is None else spec_of_fake(slot) for slot in flat)
        self.recorded.calls.append(RecordedCall(func, args, kwargs, slots, origin, fixed, self._slots))
        writes = facts(name).mutates
        for key, value in bound.items():
            if key in writes:
                for tensor in self._fakes(value):
                    self._written(storage_id(tensor), fixed)
        for offset, slot in enumerate(flat):
            if slot is not None:
                if not fixed:
                    self._variable.add(storage_id(slot))
                self._name(slot, self._slots + offset)
        self._slots += len(flat)

    def _written(self, memory: int, fixed: bool) -> None:
        owners = self._inputs_of.get(memory, set())
        if len(owners) > 1:
            names = " and ".join(sorted(self.recorded.inputs[i].name for i in owners))
            raise CaptureError(f"{names} share memory, and it is written to", current_line())
        self.recorded.written |= owners
        if not fixed:
            self._variable.add(memory)

    # Values by identity.

    def _name(self, tensor: torch.Tensor, number: int) -> None:
        self._numbers[id(tensor)] = number
        self._alive.append(tensor)
        self._memory.setdefault(storage_id(tensor), []).append((number, tensor))

    def _arg(self, arg: Any) -> Arg:
        if isinstance(arg, torch.Tensor):
            self.faked(arg)
            return Ref(self._numbers[id(arg)])
        if isinstance(arg, (list, tuple)):
            return tuple(self._arg(item) for item in arg)  # pyright: ignore[reportUnknownVariableType] # operator arguments are untyped
        return plain_argument(arg)

    def faked(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the fake of a tensor of the program. A tensor that is new becomes a constant."""
        if isinstance(tensor, FakeTensor):
            if id(tensor) not in self._numbers:
                self._adopt(tensor)
            return tensor
        if id(tensor) not in self._numbers:
            self._add_constant(tensor)
        return self.recorded.inputs[-self._numbers[id(tensor)] - 1].fake

    def _fakes(self, tree: Any) -> Iterator[torch.Tensor]:
        return (self.faked(tensor) for tensor in tensors_in(tree))

    def _add_constant(self, tensor: torch.Tensor) -> None:
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer) or not is_strided(tensor):
            raise CaptureError(
                f"a {type(tensor).__name__} of layout {tensor.layout} and dtype {tensor.dtype}; graphs hold strided",
                current_line(),
            )
        count = sum(source.role == "constant" for source in self.recorded.inputs)
        with unset_fake_temporarily():
            real = tensor.detach()
        fake = self._fake_mode.from_tensor(real, static_shapes=True)
        self.add_input(real, fake, "constant", f"constant.{count}")
        self._numbers[id(tensor)] = self._numbers[id(fake)]
        self._alive.append(tensor)
        # Made while the program ran, so what is written to it shows only through the outputs.
        self._inputs_of.pop(storage_id(fake))

    def _adopt(self, tensor: torch.Tensor) -> None:
        """Numbers a tensor that was made outside the dispatcher (`x.data`, `nn.Parameter(x)`) as an alias of a
        known one."""
        known = [(number, one) for number, one in self._memory.get(storage_id(tensor), ()) if one.dtype == tensor.dtype]
        if not known:
            raise CaptureError("a tensor that no recorded call made", current_line())
        place = _place(tensor)
        alike = [number for number, one in known if _place(one) == place]
        if alike:
            self._name(tensor, alike[-1])
            return
        number, source = known[-1]
        self._append(
            torch.ops.aten.as_strided.default,
            (Ref(number), *place),
            (),
            [tensor],
            storage_id(source) not in self._variable,
            {},
        )

    # Values that the program reads.

    def _scalar(
        self, func: Any, args: tuple[Arg, ...], kwargs: tuple[tuple[str, Arg], ...], fixed: bool, name: str
    ) -> Any:
        if not fixed and not self.follows:
            raise CaptureError(
                f"the program reads a value computed from its arguments or parameters ({name}) and may decide by it"
                f"{PATH_TAKEN_HELPS}",
                current_line(),
            )
        operand = args[0]
        if not fixed and (name not in READS or not isinstance(operand, Ref)):
            raise CaptureError(f"{name} reads values, and what it decides by is not known", current_line())
        result = self._actual.run(func, args, kwargs, everything=not fixed)
        self.recorded.reads.append(result)
        if not fixed and isinstance(operand, Ref):
            self._decide(operand.index, "branch" if isinstance(result, bool) else "number", str(result))
        return result

    def actual(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the value of a tensor of the program on the given arguments."""
        number = self.number(tensor)
        with unset_fake_temporarily(), self._unseen():
            return self._actual.of(number)

    def is_variable(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor of the program depends on an argument, a parameter or a drawn tensor."""
        return storage_id(self.faked(tensor)) in self._variable

    def truth(self, tensor: torch.Tensor) -> bool:
        """Returns the truth value of a tensor of the program, of one element."""
        with unset_fake_temporarily(), self._unseen():
            return bool(self.actual(tensor))

    def decide(self, tensor: torch.Tensor, kind: DecisionKind) -> None:
        """Notes that a tensor of the program decides."""
        with unset_fake_temporarily(), self._unseen():
            taken = outcome_of(kind, to_numpy(self.actual(tensor)))
        self._decide(self.number(tensor), kind, taken)

    def _decide(self, number: int, kind: DecisionKind, taken: str) -> None:
        if len(self.recorded.decisions) == _DECISIONS:
            raise CaptureError(
                f"the program decides more than {_DECISIONS} times by values; capture a part of it (--inside)",
                current_line(),
            )
        text = self.construct or current_expression()
        self.recorded.decisions.append(RecordedDecision(number, kind, taken, current_line(), text))

    def _sized(
        self, func: Any, args: tuple[Arg, ...], kwargs: tuple[tuple[str, Arg], ...], fakes: tuple[Any, ...]
    ) -> tuple[Any, list[int]]:
        """Computes a call whose output shape depends on data, if that data is constant or values may decide.

        Returns its result, and the positions of the operands that decided.
        """
        name = overload_name(func)
        sizing = SIZED_BY.get(name)
        tainted = [any(storage_id(t) in self._variable for t in self._fakes(fake)) for fake in fakes]
        deciding = [p for p, taint in enumerate(tainted) if taint and (sizing is None or p in sizing)]
        if deciding and not self.follows:
            raise CaptureError(
                f"the size of what {name} returns depends on the data of the arguments{PATH_TAKEN_HELPS}",
                current_line(),
            )
        if deciding:
            result = self._actual.run(func, args, kwargs, everything=True)
        else:
            with unset_fake_temporarily():
                # Only the shape is needed: zeros stand for the operand that holds data.
                stand_ins = {i: torch.zeros(fakes[i].shape, dtype=fakes[i].dtype) for i, t in enumerate(tainted) if t}
            result = self._actual.run(func, args, kwargs, stand_ins)
        return _swap(result, lambda tensor: self._fake_mode.from_tensor(tensor, static_shapes=True)), deciding


def _place(tensor: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    return tuple(tensor.shape), tuple(tensor.stride()), int(tensor.storage_offset())


def _swap(tree: Any, faked: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(tree, torch.Tensor):
        return faked(tree)
    if isinstance(tree, (list, tuple)):
        return type(tree)(_swap(item, faked) for item in tree) if type(tree) in (list, tuple) else tree  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] # operator arguments are untyped
    if isinstance(tree, dict):
        return {key: _swap(item, faked) for key, item in tree.items()}  # pyright: ignore[reportUnknownVariableType] # operator arguments are untyped
    return tree
