"""Converts a functional graph to the FX graph that PyTorch's ONNX exporter translates.

The exporter's usual way there is `torch.export` followed by `run_decompositions`, which trace the
program twice and take ten times as long as the translation itself. A `Graph` is a trace already and
knows every value's dtype and shape, so its nodes are written down directly; only an operator that
the exporter has no translation for is traced, alone, through the exporter's own decompositions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, Final

import torch
import torch.fx
from torch.fx.experimental.proxy_tensor import make_fx

from mindgap.aten.operators import bind, callable_of, facts, overload
from mindgap.aten.tape import flatten_result
from mindgap.aten.tensors import TORCH_DTYPES
from mindgap.aten.torch_private.fake_tensors import (
    FakeTensorMode,
    FunctionalTensorMode,
    dispatch_functionalize,
    enable_python_dispatcher,
)
from mindgap.aten.torch_private.onnx_exporter import (
    TypePromoter,
    TypePromotionTable,
    decomposition_table,
    translation_registry,
)
from mindgap.aten.torch_private.overloads import DispatchKey, has_kernel_for, schema_of
from mindgap.graph import Arg, Graph, Node, TensorSpec, map_refs, operands
from mindgap.platforms.protocol import CompileFailure, Unsupported

#: The operator set that `torch.onnx.export` writes by default.
OPSET: Final = 20


@dataclass
class FxProgram:
    """`graph` holds one placeholder per graph input, in order, and no output node.

    `opset`: the operator set whose translations it is for.
    `values`: the FX node of every value of the source graph, None for a slot that holds no tensor.
    `decomposed`: operators that the exporter does not know, with what they became.
    `promoted`: operators whose operands the exporter cast explicitly. `origin`: FX node name -> operator.
    """

    graph: torch.fx.Graph
    opset: int
    values: list[torch.fx.Node | None] = field(default_factory=list[torch.fx.Node | None])
    decomposed: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    promoted: set[str] = field(default_factory=set[str])
    origin: dict[str, str] = field(default_factory=dict[str, str])


#: Checks that raise in PyTorch and compute nothing: the exporter removes them, and so do we.
_ASSERTIONS: Final = frozenset(
    {
        "aten.sym_constrain_range_for_size.default",
        "aten._assert_async.default",
        "aten._assert_async.msg",
        "aten._assert_scalar.default",
        "aten._assert_tensor_metadata.default",
    }
)


@cache
def registry(opset: int) -> Any:
    """Returns the exporter's translations (`ONNXRegistry`); cached, since building takes 0.3 s."""
    return translation_registry(opset)


@cache
def _decompositions(opset: int) -> Any:
    return decomposition_table(registry(opset))


@cache
def _promotion_rules() -> Any:
    return TypePromotionTable()


def to_fx(graph: Graph, names: Sequence[str], opset: int = OPSET) -> FxProgram:
    """Converts a functional graph to FX. `names`: the operators that its nodes stand for.

    Raises `Unsupported` or `CompileFailure`, both naming the operator; a refusal names all that are refused.
    """
    built = torch.fx.Graph()
    program = FxProgram(built, opset)
    writer = _Writer(graph, program)
    for number, item in enumerate(graph.inputs):
        placeholder = built.placeholder(f"in{number}")
        placeholder.meta["val"] = _fake_value(item.spec)
        program.values.append(placeholder)
    refused: list[Unsupported] = []
    for node, name in zip(graph.nodes, names, strict=True):
        try:
            writer.add(node, name)
        except (Unsupported, CompileFailure) as error:
            if isinstance(error, Unsupported):
                refused.append(error)
            elif not refused:
                raise
            program.values.extend([None] * len(node.outputs))
    if refused:
        first, others = refused[0], dict.fromkeys(each.op for each in refused)
        raise Unsupported(first.op, first.why, [op for op in others if op != first.op])
    _promote(program)
    return program


@cache
def _fake_mode() -> FakeTensorMode:
    """Returns the process's fake tensor mode: fake tensors and traces made under it can be kept."""
    return FakeTensorMode(allow_non_fake_inputs=True)


def _fake(spec: TensorSpec) -> torch.Tensor:
    with _fake_mode():
        return torch.empty_strided(spec.shape, spec.stride, dtype=TORCH_DTYPES[spec.dtype])


@lru_cache(maxsize=4096)
def _fake_value(spec: TensorSpec) -> torch.Tensor:
    """Returns a fake tensor of this spec; values of equal spec share one, since nothing writes to it."""
    return _fake(spec)


class _Writer:
    """Appends the calls of one graph to an `FxProgram`."""

    def __init__(self, graph: Graph, program: FxProgram) -> None:
        self._source = graph
        self._program = program

    def add(self, node: Node, name: str) -> None:
        """Appends one call, decomposed if the exporter has no translation for it."""
        if node.op in _ASSERTIONS:
            return
        if facts(node.op).mutates:
            raise CompileFailure(f"{node.op}: the ONNX translation takes functional graphs only, and this writes", name)
        translated = registry(self._program.opset).is_registered(overload(node.op))
        known = translated and not _resamples(node.op) and not _is_view(node.op)
        self._program.values.extend(self._call(node, name) if known else self._decompose(node, name))

    def _call(self, node: Node, name: str) -> list[torch.fx.Node | None]:
        graph, values, target = self._program.graph, self._program.values, callable_of(node)
        kwargs = {key: bind(arg, values) for key, arg in node.kwargs}
        call = graph.call_function(target, tuple(bind(arg, values) for arg in node.args), kwargs)
        self._program.origin[call.name] = name
        fakes = [None if spec is None else _fake_value(spec) for spec in node.outputs]
        if facts(node.op).returns == 1 and not _returns_list(target):
            call.meta["val"] = fakes[0]
            return [call]
        call.meta["val"] = tuple(fakes)
        slots: list[torch.fx.Node | None] = []
        for position, fake in enumerate(fakes):
            if fake is None:
                slots.append(None)
                continue
            member = graph.call_function(operator.getitem, (call, position))
            member.meta["val"] = fake
            slots.append(member)
        return slots

    def _decompose(self, node: Node, name: str) -> list[torch.fx.Node | None]:
        places: dict[int, int] = {}
        for number in operands(node):
            places.setdefault(number, len(places))
        args = tuple(map_refs(arg, places) for arg in node.args)
        kwargs = tuple((key, map_refs(arg, places)) for key, arg in node.kwargs)
        specs = tuple(self._source.values[number] for number in places)
        traced = _decomposition(_Call(node.op, args, kwargs, specs, repr((args, kwargs)), self._program.opset))
        if isinstance(traced, CompileFailure):
            raise CompileFailure(str(traced), name)
        if missing := _untranslatable(traced, self._program.opset):
            raise Unsupported(name, f"the exporter has no ONNX translation for {missing}")
        self._program.decomposed[name] = tuple(dict.fromkeys(str(n.target) for n in traced.nodes if _is_operator(n)))
        return self._inline(name, traced, [self._program.values[number] for number in places])

    def _inline(self, op: str, traced: torch.fx.Graph, operands: list[Any]) -> list[torch.fx.Node | None]:
        """Copies a traced body into the graph, with its constants as `get_attr` nodes."""
        graph = self._program.graph
        places = iter(operands)
        copied: dict[torch.fx.Node, torch.fx.Node] = {}
        for inner in traced.nodes:
            if inner.op == "placeholder":
                copied[inner] = next(places)
            elif inner.op == "output":
                return [None if n is None else copied[n] for n in inner.args[0]]
            else:
                new = graph.node_copy(inner, copied.__getitem__)
                if inner.op == "get_attr":
                    new.meta["val"] = getattr(traced.owning_module, inner.target)
                self._program.origin[new.name] = op
                copied[inner] = new
        raise CompileFailure(f"{op}: its decomposition has no output", op)


@cache
def _returns_list(target: Any) -> bool:
    return any("List" in str(r.type) or str(r.type).startswith("Tensor[") for r in target._schema.returns)


@dataclass(frozen=True)
class _Call:
    """One call with its operands numbered from 0. `text` separates 1 from 1.0 and True, which are equal keys."""

    op: str
    args: tuple[Arg, ...]
    kwargs: tuple[tuple[str, Arg], ...]
    operands: tuple[TensorSpec | None, ...]
    text: str
    opset: int


def _resamples(op: str) -> bool:
    """Returns whether `torch.export` may decompose the operator although the exporter has a translation for it.

    PyTorch registers Python kernels for interpolation that run when a program is traced again. The exporter's own
    translation of `upsample_bicubic2d` gives other values where both sizes and scales are given.
    """
    return op.startswith("aten.upsample_") and DispatchKey.Autograd in overload(op).py_kernels


@cache
def _is_view(op: str) -> bool:
    """Returns whether `torch.export` decomposes the operator, although the exporter has a translation for it, because
    its result may share memory with an operand: `flatten`, `chunk`. Other composite operators are kept."""
    shares = any(given.alias_info is not None for given in schema_of(overload(op)).arguments)
    return shares and has_kernel_for(overload(op).name(), "CompositeImplicitAutograd")


@lru_cache(maxsize=1024)
def _decomposition(call: _Call) -> torch.fx.Graph | CompileFailure:
    """Decomposes one call as the exporter does, by the cheap route if it leads to translatable operators.

    Tracing under functionalization takes 3 ms where the exporter's own `run_decompositions` takes 100; it
    also splits composite operators met inside another (`linear` within attention), which the slow route keeps.
    """
    first = _trace_exported if _resamples(call.op) else _trace_functional
    for trace in (first, _trace_exported):
        try:
            traced = trace(call)
        except Exception as error:
            failure = CompileFailure(f"{call.op}: decomposing it for ONNX failed: {type(error).__name__}: {error}")
            continue
        for node in list(traced.nodes):
            if str(node.target) in _ASSERTIONS:
                traced.erase_node(node)
        traced.eliminate_dead_code()
        if not _untranslatable(traced, call.opset) or _is_kept(call, traced):
            return traced
        failure = None
    return failure or traced


def _untranslatable(traced: torch.fx.Graph, opset: int) -> str | None:
    """Returns the first operator of a decomposition that the exporter lacks."""
    known = registry(opset)
    return next((str(n.target) for n in traced.nodes if _is_operator(n) and not known.is_registered(n.target)), None)


def _is_kept(call: _Call, traced: torch.fx.Graph) -> bool:
    """Returns whether a trace is the call itself: then no table has a decomposition of it, and the exporter keeps it
    as well, unless a Python kernel runs beneath gradients."""
    targets = [node.target for node in traced.nodes if _is_operator(node)]
    return targets == [overload(call.op)] and DispatchKey.Autograd not in overload(call.op).py_kernels


def _runner(call: _Call) -> Callable[..., Any]:
    def run(*values: torch.Tensor) -> Any:
        kwargs = {name: bind(arg, values) for name, arg in call.kwargs}
        return flatten_result(overload(call.op)(*(bind(arg, values) for arg in call.args), **kwargs))

    return run


def _fakes(call: _Call) -> list[torch.Tensor]:
    """Makes one fake tensor per operand, none shared: a tracer identifies its inputs by object."""
    return [_fake(spec) for spec in call.operands if spec is not None]


def _trace_functional(call: _Call) -> torch.fx.Graph:
    with _fake_mode(), enable_python_dispatcher(), torch.no_grad():
        pure = dispatch_functionalize(_runner(call), FunctionalTensorMode(export=True))
        return make_fx(pure, decomposition_table=_decompositions(call.opset), tracing_mode="real")(*_fakes(call)).graph


def _trace_exported(call: _Call) -> torch.fx.Graph:
    module = torch.nn.Module()
    module.forward = _runner(call)
    program: Any = torch.export.export(module, tuple(_fakes(call)))
    return program.run_decompositions(dict(_decompositions(call.opset))).graph


def _is_operator(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and node.target is not operator.getitem


def _promote(program: FxProgram) -> None:
    """Makes implicit casts explicit, as the exporter does: ONNX operators take operands of one dtype."""
    graph = program.graph
    end = graph.output(None)
    before = list(graph.nodes)
    calls = {n: (n.args, n.kwargs) for n in before}
    module = torch.fx.GraphModule(torch.nn.Module(), graph)
    interpreter = TypePromoter(module, _promotion_rules())
    placeholders: Sequence[Any] = [n.meta["val"] for n in before if n.op == "placeholder"]
    try:
        with _fake_mode():
            interpreter.run(*placeholders)
    except Exception as error:
        raise CompileFailure(f"making implicit casts explicit for ONNX failed: {error}") from error
    for node in before:
        if (node.args, node.kwargs) != calls[node] and node.name in program.origin:
            program.promoted.add(program.origin[node.name])
    graph.erase_node(end)
