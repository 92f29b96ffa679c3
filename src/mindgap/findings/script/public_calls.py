"""Finds the public function of PyTorch that calls an operator: runs candidates and compares their calls."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any, Final

import torch

from mindgap.aten.operators import bind, facts, is_gradient_operator, packet_of
from mindgap.aten.state import TORCH_STATE
from mindgap.aten.tape import Tape, clone_strided, flatten_result
from mindgap.aten.tensors import input_tensors, to_numpy
from mindgap.aten.torch_private.fake_tensors import TorchDispatchMode
from mindgap.aten.torch_private.process_state import torch_seed
from mindgap.findings.script.public_forms import forms, functional_forms
from mindgap.findings.script.public_rules import Form, Slice
from mindgap.graph import Arg, Graph, Ref, materialise_all, operands
from mindgap.graph.operators import traits

#: Operators that PyTorch itself puts into a captured graph, for indexing, constants and assertions.
_PLUMBING: Final = frozenset(
    {"lift_fresh", "lift_fresh_copy", "lift", "alias", "detach", "detach_", "_local_scalar_dense", "_conj",
     "_conj_physical", "conj_physical", "_neg_view", "resolve_conj", "resolve_neg", "copy", "_linalg_check_errors",
     "_reshape_alias", "_unsafe_view", "set_", "embedding_renorm_"}
)  # fmt: skip
#: Packet -> the one that stands for it when two lists of calls are compared.
_STANDS_FOR: Final = {
    **dict.fromkeys(
        ("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training",
         "_batch_norm_with_update", "_native_batch_norm_legit_functional", "_batch_norm_with_update_functional",
         "_batch_norm_no_update"), "batch_norm"
    ),
    "_unsafe_index": "index", "_unsafe_index_put": "index_put", "_index_put_impl_": "index_put_",
    "_reshape_alias": "view", "_unsafe_view": "view", "scalar_tensor": "full", "unsafe_split": "split",
    "split_with_sizes": "split", "unsafe_split_with_sizes": "split", "_unique": "_unique2",
    "max_pool2d": "max_pool2d_with_indices",
    "_embedding_bag": "_embedding_bag_forward_only", "conj_physical": "_conj",
}  # fmt: skip
#: They check what other operators computed, or only lay values out: a public function may call them as well.
_IGNORED: Final = frozenset({"_linalg_check_errors", "lift_fresh", "alias", "detach", "_conj", "resolve_conj"})
#: Arguments that say where a result is, not what it is.
_PLACES: Final = frozenset({"device", "pin_memory", "layout"})
#: Operands of more bytes are compared by their spec alone.
_MOST_HASHED: Final = 1 << 24
_SEED: Final = 20261124


@dataclass(frozen=True, slots=True)
class PublicCall:
    """The public call that makes a node's results.

    - `name`: the function, or `torch.Tensor.METHOD`.
    - `positional`, `keywords`: the call's arguments, as arguments of a graph.
    - `results`: for each tensor that the call returns, in order, the node's result slot; -1 for none of them.
    - `many`: it returns a tuple or a list.
    - `subscript`: of `positional[0][…]`; None for a call.
    - `attribute`: `name` is an attribute of a tensor and not called: `x.mT`.
    - `functional`: for an operator that writes to its operand, the function that returns the same and writes to
      nothing, where nothing else reads the operand; else empty.
    """

    name: str
    positional: tuple[Arg, ...] = ()
    keywords: tuple[tuple[str, Arg], ...] = ()
    results: tuple[int, ...] = (0,)
    many: bool = False
    subscript: tuple[Arg | Slice, ...] | None = None
    attribute: bool = False
    functional: str = ""

    def source(self, write: Callable[[Arg], str], functional: bool = False) -> str:
        """Returns the call in Python: `torch.max(x0, 0)`, `x0[:, 1:3]`. `write`: writes one argument.

        `functional`: call the function that writes to nothing, where there is one.
        """
        if self.subscript is not None:
            inside = ", ".join(_slice(item) if isinstance(item, Slice) else write(item) for item in self.subscript)
            return f"{write(self.positional[0])}[{inside}]"
        if self.attribute:
            return f"{write(self.positional[0])}.{self.name.rsplit('.', 1)[1]}"
        given = [*map(write, self.positional), *(f"{name}={write(arg)}" for name, arg in self.keywords)]
        return f"{(functional and self.functional) or self.name}({', '.join(given)})"

    def target(self, names: Sequence[str]) -> str:
        """Returns the left side of the assignment. `names`: of the node's result slots."""
        slots = [names[slot] if slot >= 0 else "_" for slot in self.results]
        return ", ".join(slots) + ("," if len(slots) == 1 else "") if self.many else slots[0] if slots else ""


def _slice(item: Slice) -> str:
    ends = ["" if end is None else str(end) for end in (item.start, item.stop)]
    return ":".join([*ends, *([] if item.step is None else [str(item.step)])])


def public_call(graph: Graph, index: int, inputs: Sequence[Any] | None = None) -> PublicCall | None:
    """Returns the public call that runs exactly the node's operator and gives its bits; None without one.

    `inputs`: the graph's inputs as arrays (default: as their recipes give them). The graph's nodes up to this one are
    run. The call returns every result of the node that something reads, and writes to what the node writes to. Where
    several functions make the call, it is that which validates most: `torch.nn.functional` before `torch`.
    """
    calls: list[PublicCall | None] = []

    def visit(call: Call) -> bool:
        calls.append(call.public()[0])
        return True

    try:
        visit_calls(graph, inputs, lambda at: at == index, visit)
    except (RuntimeError, ValueError, TypeError, IndexError):  # eager PyTorch fails on the graph
        return None
    return calls[0] if calls else None


class Call:
    """One node of a graph that is being run, with the operands that it reads."""

    def __init__(self, graph: Graph, index: int, function: Any, values: dict[int, torch.Tensor]) -> None:
        self.graph, self.index, self.node = graph, index, graph.nodes[index]
        self.values = values
        self._function = function
        first = graph.first_value[index]
        read = {*graph.outputs, *(value for each in graph.nodes for value in operands(each))}
        self.slots_read = frozenset(slot for slot in range(len(self.node.outputs)) if first + slot in read)

    def refused(self) -> str:
        """Returns why no public function makes the node's call; empty where one does, or where none has to."""
        packet = packet_of(self.node.op)
        if packet in _PLUMBING or packet.startswith(("_assert", "sym_")) or is_gradient_operator(self.node.op):
            return ""
        if not self.node.outputs and not facts(self.node.op).mutates:
            return ""
        return self.public()[1]

    def public(self) -> tuple[PublicCall | None, str]:
        """Returns the public call, or why there is none."""
        wanted: _Trace | None = None
        internal = sorted(self.slots_read & set(traits(self.node.op).internal_outputs))
        for form in forms(self.graph, self.node, self.slots_read):
            call_made, problem = self._tried(form)
            if call_made is None:
                if form.strict and problem:
                    return None, f"{form.name} refuses its operands: {problem}"
                continue
            # Not before a function accepts the operands: a kernel may read outside those that it refuses.
            wanted = wanted or self._traced(self._plain())
            if wanted is None:
                return None, "it does not run by itself"
            slots = self._slots(wanted, call_made)
            if slots is not None and self._agrees(form, wanted, call_made, slots):
                return self._public(form, wanted, call_made, slots), ""
        if internal:
            return None, f"it reads result {internal[0]}, which no public function returns"
        return None, "no public function makes this call"

    def _public(self, form: Form, wanted: _Trace, trace: _Trace, slots: tuple[int, ...]) -> PublicCall:
        return PublicCall(
            form.name, form.positional, form.keywords, slots, trace.many, form.subscript, form.attribute,
            self._functional(wanted),
        )  # fmt: skip

    def _functional(self, wanted: _Trace) -> str:
        """The function that writes to nothing, where what the node writes to is read no more."""
        graph = self.graph
        writes = facts(self.node.op).mutates
        written = [arg.index for place, arg in enumerate(self.node.args) if place in writes and isinstance(arg, Ref)]
        readers = [value for at, node in enumerate(graph.nodes) if at != self.index for value in operands(node)]
        makers = [facts(graph.nodes[graph.producer[value]].op) for value in written if graph.producer[value] >= 0]
        shared = any(maker.views or maker.mutates for maker in makers)
        if not written or shared or {*readers, *graph.outputs} & set(written):
            return ""
        for form in functional_forms(self.node):
            call_made, _ = self._tried(form)
            if call_made is not None and call_made.results[:1] == wanted.results[:1]:
                return form.name
        return ""

    def _plain(self) -> Callable[[Mapping[int, torch.Tensor]], Any]:
        def run(values: Mapping[int, torch.Tensor]) -> Any:
            args = [bind(arg, values.__getitem__) for arg in self.node.args]
            return self._function(*args, **{name: bind(arg, values.__getitem__) for name, arg in self.node.kwargs})

        return run

    def _tried(self, form: Form, values: Mapping[int, torch.Tensor] | None = None) -> tuple[_Trace | None, str]:
        """Returns what a form runs, or what it raises."""

        def run(values: Mapping[int, torch.Tensor]) -> Any:
            args = [bind(arg, values.__getitem__) for arg in form.positional]
            if form.subscript is not None:
                return form.function(args[0], tuple(_index(item, values) for item in form.subscript))
            return form.function(*args, **{name: bind(arg, values.__getitem__) for name, arg in form.keywords})

        try:
            return _trace(run, values or self.values, self._random), ""
        except (RuntimeError, ValueError, IndexError) as error:
            return None, (str(error).splitlines() or [type(error).__name__])[0]
        except Exception:  # a candidate that does not take these arguments is not the function
            return None, ""

    def _traced(
        self, run: Callable[[Mapping[int, torch.Tensor]], Any], values: Mapping[int, torch.Tensor] | None = None
    ) -> _Trace | None:
        try:
            return _trace(run, values or self.values, self._random)
        except Exception:
            return None

    @property
    def _random(self) -> bool:
        return traits(self.node.op).random

    def _slots(self, wanted: _Trace, trace: _Trace) -> tuple[int, ...] | None:
        """Returns the node's slot of each result of the candidate; None where a result that is read is missing."""
        loose = traits(self.node.op).returns_uninitialised
        slots: list[int] = []
        nearest = 0
        for result in trace.results:
            place = next(
                (at for at in range(nearest, len(wanted.results)) if _equal(wanted.results[at], result, loose)), -1
            )
            slots.append(place)
            nearest = place + 1 if place >= 0 else nearest
        return tuple(slots) if self.slots_read <= set(slots) else None

    def _agrees(self, form: Form, wanted: _Trace, trace: _Trace, slots: tuple[int, ...]) -> bool:
        """Returns whether a candidate makes the node's call. Where it calls an operator that stands for the node's, it
        must also agree on other values: of zeros, many functions give the same."""
        if trace.after != wanted.after and not packet_of(self.node.op).endswith("_functional"):
            return False
        if trace.calls == wanted.calls:
            return True
        if trace.kinds != wanted.kinds:
            return False
        others = _other_values(self.values)
        theirs, (mine, _) = self._traced(self._plain(), others), self._tried(form, others)
        return theirs is None or (mine is not None and self._slots(theirs, mine) == slots)


def visit_calls(
    graph: Graph, inputs: Sequence[Any] | None, wanted: Callable[[int], bool], visit: Callable[[Call], bool]
) -> None:
    """Runs the graph in eager PyTorch on the CPU and visits the nodes that are wanted before they run.

    The run ends where a visit returns true.

    Raises `RuntimeError`, `ValueError`, `TypeError` or `IndexError` where the graph does not run.
    """

    def call(at: int, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if wanted(at):
            node = graph.nodes[at]
            named = dict(node.kwargs)
            pairs = [*zip(node.args, args, strict=True), *((named[name], kwargs[name]) for name in named)]
            values = {value: clone_strided(tensor) for value, tensor in _filled(pairs)}
            if visit(Call(graph, at, function, values)):
                raise _Ended
        return function(*args, **kwargs)

    with TORCH_STATE, torch.no_grad():
        arrays = inputs if inputs is not None else materialise_all(graph)
        with suppress(_Ended):
            Tape(graph).run(input_tensors(graph, arrays), call=call)


class _Ended(Exception):
    """A visit ended the run."""


def _filled(pairs: Iterable[tuple[Arg, Any]]) -> Iterator[tuple[int, torch.Tensor]]:
    """Yields the tensors that stand for references."""
    for arg, value in pairs:
        if isinstance(arg, Ref):
            if isinstance(value, torch.Tensor):
                yield arg.index, value
        elif isinstance(arg, tuple) and isinstance(value, (list, tuple)):
            yield from _filled(zip(arg, value, strict=True))  # pyright: ignore[reportUnknownArgumentType] # Tape fills lists


def _index(item: Arg | Slice, values: Mapping[int, torch.Tensor]) -> Any:
    return slice(item.start, item.stop, item.step) if isinstance(item, Slice) else bind(item, values.__getitem__)


def _other_values(values: Mapping[int, torch.Tensor]) -> dict[int, torch.Tensor]:
    """Returns the operands with other numbers in those that hold floats: distinct ones between 0.25 and 0.75."""
    tensors: dict[int, torch.Tensor] = {}
    generator = torch.Generator().manual_seed(_SEED)
    for number, tensor in values.items():
        if tensor.is_floating_point() and tensor.numel() <= _MOST_HASHED:
            filled = 0.25 + 0.5 * torch.rand(tensor.shape, generator=generator, dtype=torch.float64)
            other = clone_strided(tensor)
            tensors[number] = other if 0 in tensor.stride() else other.copy_(filled)
        else:
            tensors[number] = tensor
    return tensors


@dataclass(frozen=True)
class _Trace:
    """What a call ran and gave. `calls`: operators with their arguments; `kinds`: the operators alone, without those
    that only lay values out. `results`, `after`: keys of the results, and of the operands when it had run."""

    calls: tuple[Any, ...]
    kinds: tuple[str, ...]
    results: tuple[Any, ...]
    after: tuple[Any, ...]
    many: bool


def _trace(
    run: Callable[[Mapping[int, torch.Tensor]], Any], values: Mapping[int, torch.Tensor], random: bool
) -> _Trace:
    recorded = _Recorded()
    mine = {number: clone_strided(tensor) for number, tensor in values.items()}
    with torch_seed(_SEED) if random else nullcontext(), torch.no_grad(), recorded:
        result = run(mine)
    flat = flatten_result(result)
    many = isinstance(result, (tuple, list))
    return _Trace(tuple(recorded.calls), tuple(recorded.kinds), tuple(map(content_key, flat)),
                  tuple(content_key(mine[number]) for number in sorted(mine)), many)  # fmt: skip


def _equal(wanted: Any, given: Any, loose: bool) -> bool:
    """Returns whether two results have the same dtype and shape, and, unless `loose`, the same bits."""
    if wanted is None or given is None:
        return wanted is given
    return wanted[:2] == given[:2] if loose else wanted == given


def content_key(value: Any) -> Any:
    """Returns a key by which results and arguments are compared: dtype, shape and bits of a tensor."""
    if isinstance(value, torch.Tensor):
        held = value.numel() * value.element_size() <= _MOST_HASHED
        content = hashlib.blake2b(to_numpy(value).tobytes(), digest_size=16).digest() if held else b""
        return str(value.dtype), tuple(value.shape), content
    if isinstance(value, (list, tuple)):
        return tuple(map(content_key, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] # arguments are untyped
    return repr(value)


class _Recorded(TorchDispatchMode):
    """Records the overloads that run, with their arguments."""

    def __init__(self) -> None:
        super().__init__()  # pyright: ignore[reportUnknownMemberType] # untyped in PyTorch
        self.calls: list[Any] = []
        self.kinds: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named: dict[str, Any] = kwargs or {}
        op = str(func)
        packet = packet_of(op) if op.count(".") == 2 else op
        if not traits(op).returns_uninitialised and packet not in _IGNORED:
            kept = sorted((name, value) for name, value in named.items() if name not in _PLACES and value is not None)
            self.calls.append((op, content_key(args), content_key(kept)))
            if not _lays_out(op):
                self.kinds.append(_STANDS_FOR.get(packet, packet))
        return func(*args, **named)


def _lays_out(op: str) -> bool:
    try:
        known = facts(op)
    except Exception:
        return False
    return bool(known.views) and not known.mutates and packet_of(op) not in ("_to_copy",)
