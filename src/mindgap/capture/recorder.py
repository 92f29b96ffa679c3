"""The dispatch mode that writes down what a program calls, under fake tensors."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    unset_fake_temporarily,
)

from mindgap.aten.imagine import imagined
from mindgap.aten.operators import facts, overload_name
from mindgap.aten.tape import flatten_result
from mindgap.aten.tensors import torch_dtype_name
from mindgap.capture import draw
from mindgap.capture.dispatcher import (
    PreDispatchMode,
    autocast_casts,
    away,
    below,
    in_function_transform,
    is_composite,
    memory_of,
    taken_apart,
    tensors_in,
    through_autocast,
)
from mindgap.capture.errors import CaptureError
from mindgap.capture.neutral import portable_kernels
from mindgap.capture.origin import current_line, here
from mindgap.capture.recording import Call, Recorded, Source
from mindgap.graph import Arg, Device, DType, Layout, MemoryFormat, Recipe, Ref, Role, TensorSpec

#: Operators of one device or of one library: a portable graph holds none.
_DEVICE_BOUND: Final = (
    "mkldnn",
    "_for_cpu",
    "cudnn",
    "miopen",
    "_native_multi_head",
    "_transformer_encoder_layer",
    "_efficient_attention",
    "_flash_attention",
    "onednn",
    "_mps_",
    "quantized.",
)
#: Operators whose result's size depends on the data of some operands only, and the positions of those.
_SIZED_BY: Final = {
    "aten.index.Tensor": {1},
    "aten.masked_select.default": {1},
    "aten.repeat_interleave.self_Tensor": {1},
    "aten.ctc_loss.Tensor": {2, 3},
}


class Recorder(PreDispatchMode):
    """Records every call above autocast and autograd, by the identity of fake tensors."""

    def __init__(self, fake_mode: FakeTensorMode, modules: dict[int, str]) -> None:
        super().__init__()
        self.recorded = Recorded()
        self._fake_mode = fake_mode
        self._modules = modules
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []
        self._slots = 0
        self._memory: dict[int, list[tuple[int, torch.Tensor]]] = {}
        self._inputs_of: dict[int, set[int]] = {}
        self._tainted: set[int] = set()
        self._actual: dict[int, torch.Tensor] = {}
        self._evaluated = 0
        self._within = ""

    # What the program hands over and takes back.

    def add_input(
        self, real: torch.Tensor | None, fake: torch.Tensor, role: Role, name: str, recipe: Recipe | None = None
    ) -> None:
        """Declare a tensor as the next input. `real` is None for one that is drawn."""
        index = len(self.recorded.inputs)
        self.recorded.inputs.append(Source(real, fake, role, name, recipe))
        memory = memory_of(fake)
        self._inputs_of.setdefault(memory, set()).add(index)
        self._name(fake, -(index + 1))
        if role not in ("constant", "buffer"):
            self._tainted.add(memory)

    def number(self, tensor: torch.Tensor) -> int:
        """The value number of a tensor that the program returned."""
        found = self._arg(tensor)
        assert isinstance(found, Ref)
        return found.index

    # The mode.

    def __torch_dispatch__(self, func: Any, kinds: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:
            return func(*args, **kwargs)
        if in_function_transform():
            with self:
                return below(func, args, kwargs)
        if torch.is_autocast_enabled("cpu"):
            if autocast_casts(func):
                with self:
                    return through_autocast(func, args, kwargs)
            # A composite without a rule of its own may call operators that have one.
            if is_composite(func) and not draw.is_random(func, args, kwargs):
                with self, portable_kernels():
                    return taken_apart(func, *args, **kwargs)
        if draw.is_random(func, args, kwargs):
            return self._draw(func, args, kwargs)
        hidden = _HIDDEN_WRITES.get(draw.packet(func))
        if hidden is not None:
            bound = draw.bind(func, args, kwargs)
            if hidden[0](bound):
                with self:
                    return hidden[1](func, bound, args, kwargs)
        if func in (torch.ops.aten.lift_fresh.default, torch.ops.aten.detach_.default):
            return self._faked(args[0])  # nothing happens to the values: there are no gradients here
        return self._record(func, args, kwargs)

    def _draw(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        plain = {k: v for k, v in kwargs.items() if k != "generator"}
        like = func(*args, **plain) if draw.needs_result(func) else None
        outer, self._within = self._within, self._within or overload_name(func)
        try:
            with self:
                return draw.lower(func, args, plain, like, self._drawn)
        finally:
            self._within = outer

    def _drawn(self, make: Callable[[int], Recipe], shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        count = sum(source.role == "random" for source in self.recorded.inputs)
        with away(self):
            fake = torch.empty(shape, dtype=dtype)
        self.add_input(None, fake, "random", f"random.{count}", make(count + 1))
        return fake

    def _record(self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        name = overload_name(func)
        noted = tuple(self._arg(arg) for arg in args)
        named = tuple(sorted((key, self._arg(arg)) for key, arg in kwargs.items() if not _is_idle(key, arg)))
        fixed = all(memory_of(fake) not in self._tainted for fake in self._fakes((args, kwargs)))
        # The call runs on fakes: a tensor of the program that is real is a constant and has one.
        real_args, real_kwargs = _swap(args, self._faked), _swap(kwargs, self._faked)
        try:
            result = imagined(func, real_args, real_kwargs)
        except DataDependentOutputException:
            return self._scalar(func, noted, named, fixed, name)
        except DynamicOutputShapeException:
            result = self._sized(func, noted, named, real_args)
        flat = flatten_result(result)
        if not any(isinstance(slot, torch.Tensor) for slot in flat) and flat:
            return result
        self._append(func, noted, named, flat, fixed, draw.bind(func, real_args, real_kwargs))
        return result

    def _append(
        self,
        func: Any,
        args: tuple[Arg, ...],
        kwargs: tuple[tuple[str, Arg], ...],
        flat: list[Any],
        fixed: bool,
        bound: Mapping[str, Any],
    ) -> None:
        name = overload_name(func)
        if any(word in name for word in _DEVICE_BOUND):
            raise CaptureError(f"{name} exists on one device only; use the plain operator", current_line())
        origin = here(self._modules)
        if self._within:
            origin = f"{origin} in {self._within}".strip()
        slots = tuple(None if slot is None else _spec(slot) for slot in flat)
        self.recorded.calls.append(Call(func, args, kwargs, slots, origin, fixed, self._slots))
        writes = facts(name).mutates
        for key, value in bound.items():
            if key in writes:
                for tensor in self._fakes(value):
                    self._written(memory_of(tensor), fixed)
        for offset, slot in enumerate(flat):
            if slot is not None:
                if not fixed:
                    self._tainted.add(memory_of(slot))
                self._name(slot, self._slots + offset)
        self._slots += len(flat)

    def _written(self, memory: int, fixed: bool) -> None:
        owners = self._inputs_of.get(memory, set())
        if len(owners) > 1:
            names = " and ".join(sorted(self.recorded.inputs[i].name for i in owners))
            raise CaptureError(f"{names} share memory, and it is written to", current_line())
        self.recorded.written |= owners
        if not fixed:
            self._tainted.add(memory)

    # Values by identity.

    def _name(self, tensor: torch.Tensor, number: int) -> None:
        self._numbers[id(tensor)] = number
        self._alive.append(tensor)
        self._memory.setdefault(memory_of(tensor), []).append((number, tensor))

    def _arg(self, arg: Any) -> Arg:
        if isinstance(arg, torch.Tensor):
            self._faked(arg)
            return Ref(self._numbers[id(arg)])
        if isinstance(arg, (list, tuple)):
            return tuple(self._arg(item) for item in arg)  # pyright: ignore[reportUnknownVariableType] # operator arguments are untyped
        return _plain(arg)

    def _faked(self, tensor: torch.Tensor) -> torch.Tensor:
        """The fake of a tensor of the program, which gets a number here if it has none."""
        if isinstance(tensor, FakeTensor):
            if id(tensor) not in self._numbers:
                self._adopt(tensor)
            return tensor
        if id(tensor) not in self._numbers:
            self._add_constant(tensor)
        return self.recorded.inputs[-self._numbers[id(tensor)] - 1].fake

    def _fakes(self, tree: Any) -> Iterator[torch.Tensor]:
        return (self._faked(tensor) for tensor in tensors_in(tree))

    def _add_constant(self, tensor: torch.Tensor) -> None:
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout != torch.strided:
            raise CaptureError(f"a constant tensor of kind {type(tensor).__name__}, {tensor.layout}", current_line())
        count = sum(source.role == "constant" for source in self.recorded.inputs)
        with unset_fake_temporarily():
            real = tensor.detach()
        fake = self._fake_mode.from_tensor(real, static_shapes=True)
        self.add_input(real, fake, "constant", f"constant.{count}")
        self._numbers[id(tensor)] = self._numbers[id(fake)]
        self._alive.append(tensor)
        # Made while the program ran, so nobody sees what is written to it except through the outputs.
        self._inputs_of.pop(memory_of(fake))

    def _adopt(self, tensor: torch.Tensor) -> None:
        """A tensor made outside the dispatcher (`x.data`, `nn.Parameter(x)`): an alias of a known one."""
        known = [(number, one) for number, one in self._memory.get(memory_of(tensor), ()) if one.dtype == tensor.dtype]
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
            memory_of(source) not in self._tainted,
            {},
        )

    # Values that the program reads.

    def _scalar(
        self, func: Any, args: tuple[Arg, ...], kwargs: tuple[tuple[str, Arg], ...], fixed: bool, name: str
    ) -> Any:
        if not fixed:
            raise CaptureError(
                f"the program reads a value computed from its arguments or parameters ({name}) and may decide by it",
                current_line(),
            )
        return self._run(func, args, kwargs)

    def _sized(
        self, func: Any, args: tuple[Arg, ...], kwargs: tuple[tuple[str, Arg], ...], fakes: tuple[Any, ...]
    ) -> Any:
        """The result of a call whose shape is in its operands' data, where those operands are constants."""
        sizing = _SIZED_BY.get(overload_name(func))
        tainted = [any(memory_of(t) in self._tainted for t in self._fakes(fake)) for fake in fakes]
        if any(taint and (sizing is None or position in sizing) for position, taint in enumerate(tainted)):
            raise CaptureError(
                f"the size of what {overload_name(func)} returns depends on the data of the arguments", current_line()
            )
        with unset_fake_temporarily():
            # Only the shape is asked for: zeros stand for the operand that holds data.
            stand_ins = {i: torch.zeros(fakes[i].shape, dtype=fakes[i].dtype) for i, t in enumerate(tainted) if t}
        result = self._run(func, args, kwargs, stand_ins)
        return _swap(result, lambda tensor: self._fake_mode.from_tensor(tensor, static_shapes=True))

    def _run(
        self,
        func: Any,
        args: tuple[Arg, ...],
        kwargs: tuple[tuple[str, Arg], ...],
        stand_ins: Mapping[int, torch.Tensor] = types.MappingProxyType({}),
    ) -> Any:
        """The call on the real values of constants and untouched buffers."""
        with unset_fake_temporarily():
            for call in self.recorded.calls[self._evaluated :]:
                if call.fixed:
                    result = call.func(
                        *[self._real(a) for a in call.args], **{k: self._real(a) for k, a in call.kwargs}
                    )
                    for offset, slot in enumerate(flatten_result(result)):
                        if slot is not None:
                            self._actual[call.first + offset] = slot
            self._evaluated = len(self.recorded.calls)
            operands = [stand_ins[i] if i in stand_ins else self._real(a) for i, a in enumerate(args)]
            return func(*operands, **{k: self._real(a) for k, a in kwargs})

    def _real(self, arg: Arg) -> Any:
        if isinstance(arg, Ref):
            if arg.index not in self._actual:
                real = self.recorded.inputs[-arg.index - 1].real
                assert real is not None
                if real.device.type == "meta":
                    raise CaptureError("the program reads a value that was never set (a meta tensor)", current_line())
                self._actual[arg.index] = real.clone()
            return self._actual[arg.index]
        if isinstance(arg, tuple):
            return [self._real(item) for item in arg]
        if isinstance(arg, DType):
            return getattr(torch, arg.name)
        if isinstance(arg, (MemoryFormat, Layout)):
            return getattr(torch, arg.name)
        return torch.device("cpu") if isinstance(arg, Device) else arg


def _place(tensor: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    return tuple(tensor.shape), tuple(tensor.stride()), int(tensor.storage_offset())


def _spec(tensor: torch.Tensor) -> TensorSpec:
    try:
        return TensorSpec(
            torch_dtype_name(tensor.dtype), tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride()))
        )
    except KeyError:
        raise CaptureError(f"a tensor of dtype {tensor.dtype}, which graphs do not hold", current_line()) from None
    except RuntimeError:
        raise CaptureError(f"a tensor of layout {tensor.layout}; graphs hold strided ones", current_line()) from None


def _is_idle(key: str, arg: Any) -> bool:
    return arg is None or key == "generator" or (key == "pin_memory" and not arg)


def _plain(arg: Any) -> Arg:
    if arg is None or isinstance(arg, (bool, int, float, complex, str)):
        return arg
    if isinstance(arg, torch.dtype):
        return DType(torch_dtype_name(arg))
    if isinstance(arg, torch.device):
        if arg.type != "cpu":
            raise CaptureError(f"device {arg}: capture on the CPU; each platform puts its own device", current_line())
        return Device()
    if isinstance(arg, torch.memory_format):
        return MemoryFormat(str(arg).removeprefix("torch."))
    if isinstance(arg, torch.layout):
        if arg != torch.strided:
            raise CaptureError(f"layout {arg}; graphs hold strided tensors", current_line())
        return Layout("strided")
    raise CaptureError(f"an operand of type {type(arg).__name__}", current_line())


def _swap(tree: Any, faked: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(tree, torch.Tensor):
        return faked(tree)
    if isinstance(tree, (list, tuple)):
        return type(tree)(_swap(item, faked) for item in tree) if type(tree) in (list, tuple) else tree  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] # operator arguments are untyped
    if isinstance(tree, dict):
        return {key: _swap(item, faked) for key, item in tree.items()}  # pyright: ignore[reportUnknownVariableType] # operator arguments are untyped
    return tree


def _training_norm(func: Any, bound: Mapping[str, Any], _: Any, __: Any) -> Any:
    legit = torch.ops.aten._native_batch_norm_legit.default
    return legit(
        bound["input"],
        bound["weight"],
        bound["bias"],
        bound["running_mean"],
        bound["running_var"],
        True,
        bound["momentum"],
        bound["eps"],
    )[0]


def _taken_apart(func: Any, _: Mapping[str, Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    return taken_apart(func, *args, **kwargs)


#: Operators that write running statistics without saying so in their schema: (does this call?, what to record).
_HIDDEN_WRITES: Final[dict[str, tuple[Callable[[Mapping[str, Any]], bool], Callable[..., Any]]]] = {
    "batch_norm": (lambda b: bool(b["training"]) and b["running_mean"] is not None, _training_norm),
    "instance_norm": (lambda b: bool(b["use_input_stats"]) and b["running_mean"] is not None, _taken_apart),
}
