"""Unpacks quantised modules (`torch.ao.nn.quantized`) into plain tensors and operators, and checks the operators.

The packed weights of one library become integers, scales and zero points, which are buffers of the program. While the
program runs, functions on quantised tensors go to their definitions (`quantised_operators`).
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# (PyTorch's quantised modules are untyped)

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch.overrides import TorchFunctionMode

from mindgap.aten.torch_private.modules import tree_map
from mindgap.graph_capture.errors import CaptureError, QuantisedPart
from mindgap.graph_capture.program import ProgramWithin, modules_of
from mindgap.graph_capture.quantised_layers import RECURRENT, PackedCell, PackedRows
from mindgap.graph_capture.quantised_operators import PackedWeight, Quantised, call, defined, name_of
from mindgap.graph_capture.wrapped_weights import with_plain_weights, wrapped_weights

#: Packages of modules with packed int8 weights, and what is in them and has none.
_PACKAGES: Final = ("torch.ao.nn.quantized.", "torch.ao.nn.intrinsic.quantized.")
_FLOAT: Final = ("FloatFunctional", "FXFloatFunctional", "LinearPackedParams", "EmbeddingPackedParams")
_CONVOLVED: Final = ("stride", "padding", "dilation", "groups")
#: Steps of a result's scale that two correct implementations may differ by at one operator: a tie of the rounding.
_STEPS: Final = 1
_UNDEFINED: Final = (
    "it has no definition on plain integers here; leave it in float (qconfig = None), or capture the model from before "
    "the conversion"
)
#: How far float32 results of an exact sum may be apart, of the largest.
_FLOATS_APART: Final = 1e-6


def quantised_modules(program: Any) -> list[tuple[str, torch.nn.Module]]:
    """Returns the quantised modules of a program and their paths."""
    modules: list[tuple[str, torch.nn.Module]] = []
    if isinstance(program, torch.nn.Module):
        for path, module in program.named_modules():
            kind = type(module)
            packed = kind.__module__.startswith(_PACKAGES) and ".reference." not in kind.__module__
            if packed and kind.__name__ not in _FLOAT:
                modules.append((path, module))
    return modules


class UnpackedProgram(ProgramWithin):
    """Runs a program whose quantised modules hold `PackedWeight`."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__(inner, _Definitions)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Returns what the program returns; quantised tensors among it as integers."""
        result = super().forward(*args, **kwargs)
        return tree_map(lambda leaf: leaf.values if isinstance(leaf, Quantised) else leaf, result)


class _Definitions(TorchFunctionMode):
    """Sends functions on quantised values to their definitions. `check`: called with each and its result."""

    def __init__(self, check: Callable[[str, Sequence[Any], Mapping[str, Any], Any], None] | None = None) -> None:
        super().__init__()
        self._check = check

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = name_of(func)
        operator = name.startswith("quantized.") or name in RECURRENT
        if not operator and name != "quantize_per_tensor" and not _holds_quantised((args, kwargs)):
            return func(*args, **kwargs)
        result = call(func, args, kwargs)
        if self._check is not None and operator:
            self._check(name, args, kwargs, result)
        return result


def _holds_quantised(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds_quantised(each) for each in value)
    if isinstance(value, dict):
        return any(_holds_quantised(each) for each in value.values())
    return isinstance(value, Quantised)


def unpack_quantised(program: torch.nn.Module) -> tuple[UnpackedProgram, dict[int, Any]]:
    """Returns a copy of a program in which packed weights are plain, and the packed weights by the `id` of what takes
    their place. Raises `CaptureError` with the path of a module that has no definition here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inner = copy.deepcopy(program)
    packed: dict[int, Any] = {}
    for path, module in quantised_modules(inner):
        try:
            _unpack(module, packed)
        except CaptureError as error:
            raise CaptureError(f"{path or 'the program'} ({type(module).__name__}): {error.reason}") from error
    for module in inner.modules():
        if isinstance(module, torch.fx.GraphModule):
            _fix_parameters(module)
    return UnpackedProgram(inner), packed


def _unpack(module: Any, packed: dict[int, Any]) -> None:
    name = type(module).__name__
    for key in ("scale", "zero_point"):
        if isinstance(value := getattr(module, key, None), torch.Tensor) and value.numel() == 1:
            delattr(module, key)
            setattr(module, key, value.item())
    if name == "PackedParameter" or hasattr(module, "_packed_weight_ih"):
        _unpack_recurrent(module, packed)
    elif "Embedding" in name:
        holder = module._packed_params
        one = PackedRows(module.weight())
        read = 4 if module.dtype == torch.quint4x2 else 8
        if one.bits != read:
            raise CaptureError(
                f"its weight has {one.bits} bits, and PyTorch's module reads {read}: its outputs have another shape "
                "than the float module's; quantise it to 8 bits (float_qparams_weight_only_qconfig)"
            )
        packed[id(one)] = holder._packed_weight
        del holder._packed_weight
        holder._packed_weight = one
    elif hasattr(module, "_packed_params") and hasattr(module, "weight"):
        holder = module._packed_params
        linear = isinstance(holder, torch.nn.Module)
        weight = module.weight()
        if not weight.is_quantized:
            raise CaptureError(f"a weight of {weight.dtype}, which has no definition here")
        if "Transpose" in name or getattr(module, "padding_mode", "zeros") != "zeros":
            raise CaptureError(_UNDEFINED)
        given = (
            None
            if linear
            else {key: list(value) if isinstance(value := getattr(module, key), tuple) else value for key in _CONVOLVED}
        )
        one = PackedWeight(weight, module.bias(), given)
        packed[id(one)] = holder._packed_params if linear else holder
        target = holder if linear else module
        if not linear:
            module.__class__ = type(name, (_CopiedByFields, type(module)), {"__module__": type(module).__module__})
        del target._packed_params
        target._packed_params = one
    elif hasattr(module, "_packed_params"):
        raise CaptureError(_UNDEFINED)


def _unpack_recurrent(module: Any, packed: dict[int, Any]) -> None:
    """Unpacks a cell, or the parameters of one direction of one layer."""
    if hasattr(module, "_packed_weight_ih"):
        for key in ("_packed_weight_ih", "_packed_weight_hh"):
            one = _unpacked_linear(getattr(module, key), packed)
            delattr(module, key)
            setattr(module, key, one)
        return
    kind, _, _, whole, weights = module.param.__getstate__()[0]
    if kind != "quantized_dynamic":
        raise CaptureError("weights of float16, which have no definition here")
    ih, hh = (_unpacked_linear(each, packed) for each in weights)
    one = PackedCell(ih, hh, bool(whole[0]))
    packed[id(one)] = module.param
    del module.param
    module.param = one


def _unpacked_linear(holder: Any, packed: dict[int, Any]) -> PackedWeight:
    weight, bias = holder.__getstate__()[0]
    if not weight.is_quantized:
        raise CaptureError(f"a weight of {weight.dtype}, which has no definition here")
    one = PackedWeight(weight, None if bias is None else bias.detach())
    packed[id(one)] = holder
    return one


class _CopiedByFields:
    """Replaces the copying of PyTorch's quantised convolutions, which unpacks and packs their weights."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        new.__dict__ = copy.deepcopy(self.__dict__, memo)
        return new


def _fix_parameters(module: torch.fx.GraphModule) -> None:
    """Makes numbers of the scales and zero points that a graph reads from buffers."""
    for node in module.graph.nodes:
        name = name_of(node.target) if node.op == "call_function" else ""
        if name == "quantize_per_tensor" or name.startswith("quantized."):
            for each in (*node.args, *node.kwargs.values()):
                target = str(each.target) if isinstance(each, torch.fx.Node) else ""
                value = getattr(module, target, None)
                if isinstance(value, torch.Tensor) and value.dim() == 0:
                    delattr(module, target)
                    setattr(module, target, value.item())


@dataclass
class QuantisedCheck:
    """Compares each operator's definition with PyTorch's own, on the operands that it gets.

    packed: the packed weights by the `id` of what takes their place.
    apart: operators whose integers differ by one step, with the number of elements that do.
    rounded: operators whose float results differ in their rounding.
    """

    packed: Mapping[int, Any]
    exact: int = 0
    apart: dict[str, int] = field(default_factory=dict[str, int])
    rounded: set[str] = field(default_factory=set[str])

    def __call__(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
        """Raises `CaptureError` if the results are further apart than a tie of the rounding."""
        own = getattr(torch.ops.quantized if "." in name else torch.ops.aten, name.removeprefix("quantized."))
        expected = own(
            *[self._packed(each) for each in args], **{key: self._packed(each) for key, each in kwargs.items()}
        )
        if name in RECURRENT:
            # The state is quantised again at each step: with PyTorch's products no difference of rounding grows.
            result = RECURRENT[name](self._product)(*args, **kwargs)
        if isinstance(result, Quantised):
            steps = (expected.int_repr().to(torch.int32) - result.values.to(torch.int32)).abs()
            if steps.numel() and int(steps.max()) > _STEPS:
                raise CaptureError(
                    f"{name}: the definition on plain integers differs from PyTorch's operator by {int(steps.max())} "
                    f"steps (engine {torch.backends.quantized.engine})"
                )
            if wrong := int((steps > 0).sum()):
                self.apart[name] = self.apart.get(name, 0) + wrong
            else:
                self.exact += 1
            return
        for ours, theirs in zip(_tensors(result), _tensors(expected), strict=True):
            limit = _FLOATS_APART * float(theirs.abs().max()) if theirs.numel() else 0.0
            if not torch.allclose(ours, theirs, _FLOATS_APART, limit, equal_nan=True):
                raise CaptureError(
                    f"{name}: the definition on plain integers gives other values than PyTorch's operator "
                    f"(engine {torch.backends.quantized.engine})"
                )
            if torch.equal(ours, theirs):
                self.exact += 1
            else:
                self.rounded.add(name)

    def _product(self, x: torch.Tensor, weight: PackedWeight, reduced: bool) -> torch.Tensor:
        """Returns PyTorch's product of an operand and a weight of a recurrent layer, and checks its definition."""
        name = "quantized.linear_dynamic"
        self(name, (x, weight, reduced), {}, defined(name)(x, weight, reduced))
        return torch.ops.quantized.linear_dynamic(x, self.packed[id(weight)], reduced)

    def _packed(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._packed(each) for each in value]
        if isinstance(value, Quantised):
            kind = torch.quint8 if value.values.dtype == torch.uint8 else torch.qint8
            return torch.quantize_per_tensor(value.real(), value.scale, value.zero, kind)
        return self.packed.get(id(value), value)

    def words(self) -> str:
        """Says in what operators differ from PyTorch's; empty if every one is bit for bit equal."""
        parts = [f"{name} by one quantisation step in {count} elements" for name, count in self.apart.items()]
        parts += [f"{name} in the rounding of float32" for name in sorted(self.rounded)]
        return ", ".join(parts)


def _tensors(result: Any) -> Sequence[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else result


def unpacked(program: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[UnpackedProgram, str]:
    """Returns a program with plain weights, and in what its operators differ from PyTorch's quantised ones.

    Runs both once on the arguments. Raises `CaptureError` for a module or an operator without a definition, and if a
    definition gives something else than PyTorch's operator.
    """
    program_unpacked, packed = unpack_quantised(program)
    check = QuantisedCheck(packed)
    given, named = copy.deepcopy((tuple(args), dict(kwargs)))
    with torch.no_grad(), warnings.catch_warnings(), _Definitions(check):
        warnings.simplefilter("ignore")
        program_unpacked.inner(*given, **named)
    return program_unpacked, check.words()


def plain_program(program: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Returns the program itself if nothing in it is quantised, else one with plain weights (see `unpacked` and
    `with_plain_weights`). Warns `QuantisedPart` of what its operators differ in from PyTorch's."""
    if not isinstance(program, torch.nn.Module):
        for prefix, root in modules_of(program):
            for path, module in quantised_modules(root):
                where = ".".join(part for part in (prefix, path) if part) or "the program"
                raise CaptureError(
                    f"{where} is a quantised module ({type(module).__name__}) in a function; return the module itself"
                )
        return program
    if wrapped_weights(program):
        program = with_plain_weights(program)
    if not quantised_modules(program):
        return program
    plain, differs = unpacked(program, args, kwargs)
    if differs:
        warnings.warn(
            f"unpacked quantised modules differ from PyTorch's operators: {differs}", QuantisedPart, stacklevel=3
        )
    return plain
