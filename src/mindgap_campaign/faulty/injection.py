"""Finds the calls of a graph that faults apply to, and runs those calls with the faults in them."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final

import numpy as np
import torch

from mindgap.aten.operators import SchemaFacts, facts
from mindgap.aten.tape import clone_strided, flatten_result
from mindgap.aten.tensors import TORCH_DTYPES
from mindgap.graph import Graph, Node
from mindgap.platforms.protocol import CompileFailure, Unsupported
from mindgap_campaign.faulty import schema
from mindgap_campaign.faulty.corruption import corrupted, lowered, toward_zero

_WIDE: Final = {torch.float16: torch.float64, torch.bfloat16: torch.float64, torch.float32: torch.float64,
                torch.complex64: torch.complex128}  # fmt: skip


@dataclass(frozen=True, slots=True)
class InjectionSite:
    """A fault, by its number in the file, at a node that meets all of its static conditions."""

    number: int
    fault: schema.Fault


def injection_sites(faults: schema.Faults, graph: Graph, digest: str) -> list[list[InjectionSite]]:
    """Returns, for each node, the faults that may apply to it. Raises the errors of faults at load."""
    sites: list[list[InjectionSite]] = []
    for index, node in enumerate(graph.nodes):
        here = [InjectionSite(n, f) for n, f in enumerate(faults.fault) if meets(f, node, index, digest)]
        for site in here:
            if isinstance(site.fault, schema.Refusal):
                raise Unsupported(node.op, site.fault.why)
            if isinstance(site.fault, schema.CompileError):
                raise CompileFailure(f"{node.op}: {site.fault.message}")
        sites.append(here)
    return sites


def meets(fault: schema.Fault, node: Node, index: int, digest: str) -> bool:
    """Returns whether a node meets every static condition of a fault."""
    when = fault.when
    if not fnmatchcase(node.op, when.op) or not digest.startswith(when.graph) or when.node not in (None, index):
        return False
    if isinstance(fault, schema.Attribute) and not set(fault.set) <= set(facts(node.op).arguments):
        return False
    spec = node.outputs[fault.output] if fault.output < len(node.outputs) else None
    if spec is None:
        return False
    if when.dtype not in (None, spec.dtype) or spec.numel < when.min_numel:
        return False
    if when.max_numel is not None and spec.numel > when.max_numel:
        return False
    return when.shape is None or (
        len(when.shape) == len(spec.shape)
        and all(want in (-1, size) for want, size in zip(when.shape, spec.shape, strict=True))
    )


class FaultInjector:
    """Calls nodes with their faults. Lives as long as the loaded graph: stale results and leaks outlast a run."""

    def __init__(self, graph: Graph, sites: Sequence[Sequence[InjectionSite]]) -> None:
        self._graph, self._sites = graph, sites
        self._runs = 0
        self._met: Counter[int] = Counter()
        self._earlier: dict[tuple[Any, ...], torch.Tensor] = {}
        self._leaked: list[Any] = []

    def begin(self) -> None:
        """Begins a run: resets the counts of occurrences."""
        self._runs += 1
        self._met.clear()
        self._earlier = {key: kept for key, kept in self._earlier.items() if key[0] == "node"}

    def may_inject(self, index: int) -> bool:
        """Returns whether some fault may apply to this node."""
        return bool(self._sites[index])

    def call(self, index: int, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Calls the node, and applies every fault of this call to its result."""
        sites = [site for site in self._sites[index] if self._applies(site, args, kwargs)]
        if not sites:
            return function(*args, **kwargs)
        known = facts(self._graph.nodes[index].op)
        for site in sites:
            self._disturb(site.fault)
        others = [_Other.of(site.fault, known, args, kwargs) for site in sites]
        flat = flatten_result(function(*args, **kwargs))
        for site, other in zip(sites, others, strict=True):
            slot = site.fault.output
            if slot < len(flat) and (right := flat[slot]) is not None:
                wrong = self._wrong(site, index, function, other, right)
                flat[slot] = _write_back(wrong, right) if known.mutates else wrong
        return flat if len(flat) != 1 else flat[0]

    def _applies(self, site: InjectionSite, args: list[Any], kwargs: dict[str, Any]) -> bool:
        when = site.fault.when
        if when.any is not None and not _some_element(when.any, [*args, *kwargs.values()]):
            return False
        self._met[site.number] += 1
        count = self._met[site.number]
        return when.nth in (None, count) and (when.every is None or count % when.every == 0)

    def _disturb(self, fault: schema.Fault) -> None:
        """Applies a fault's effect on the process before the operator runs."""
        match fault:
            case schema.Crash():
                os.kill(os.getpid(), signal.Signals[fault.signal])
                time.sleep(60)  # a signal may take a moment to arrive
            case schema.Hang():
                time.sleep(fault.seconds)
            case schema.Leak():
                self._leaked.append(np.ones(fault.megabytes << 17))  # written to, so that it is resident
            case schema.RuntimeFailure():
                raise RuntimeError(fault.message)
            case _:
                pass

    def _wrong(
        self, site: InjectionSite, index: int, function: Any, other: _Other | None, right: torch.Tensor
    ) -> torch.Tensor:
        fault = site.fault
        if other is not None:
            return other.result(fault, function, right)
        if isinstance(fault, schema.Stale):
            where = ("node", site.number, index) if fault.of == "node" else ("operator", site.number)
            key = (*where, right.dtype, tuple(right.shape))
            earlier = self._earlier.get(key)
            self._earlier[key] = right.clone()
            return right if earlier is None else earlier
        draw = self._met[site.number]
        if isinstance(fault, schema.Nondeterministic):
            draw += self._runs << 32
        return corrupted(fault, right, draw)


@dataclass(frozen=True, slots=True)
class _Other:
    """Copies of the arguments for a second call, made before the first may write to them."""

    args: list[Any]
    kwargs: dict[str, Any]

    @staticmethod
    def of(fault: schema.Fault, known: SchemaFacts, args: list[Any], kwargs: dict[str, Any]) -> _Other | None:
        """Copies the arguments; None for a fault that does not call the operator again."""

        def each(change: Callable[[Any], Any]) -> _Other:
            return _Other([_map(a, change) for a in args], {k: _map(v, change) for k, v in kwargs.items()})

        match fault:
            case schema.LowPrecision():
                return each(partial(_lowered, to=fault.format))
            case schema.TowardZero():
                return each(_widened)
            case schema.Attribute():
                copied = each(_own) if known.mutates else _Other(args, kwargs)
                return _override(copied, fault.set, known.arguments)
            case _:
                return None

    def result(self, fault: schema.Fault, function: Any, right: torch.Tensor) -> torch.Tensor:
        flat = flatten_result(function(*self.args, **self.kwargs))
        output = flat[fault.output] if fault.output < len(flat) else None
        if output is None:
            return right
        return toward_zero(output, right) if isinstance(fault, schema.TowardZero) else output


def _override(call: _Other, values: dict[str, Any], arguments: Sequence[str]) -> _Other:
    args, kwargs = list(call.args), dict(call.kwargs)
    for name, value in values.items():
        position = arguments.index(name)
        wanted = TORCH_DTYPES[value] if isinstance(value, str) and value in TORCH_DTYPES else value
        if position < len(args):
            args[position] = wanted
        else:
            kwargs[name] = wanted
    return _Other(args, kwargs)


def _map(value: Any, change: Callable[[Any], Any]) -> Any:
    return [_map(item, change) for item in value] if isinstance(value, list) else change(value)  # pyright: ignore[reportUnknownVariableType] # operands are untyped


def _own(value: Any) -> Any:
    return clone_strided(value) if isinstance(value, torch.Tensor) else value


def _lowered(value: Any, to: str) -> Any:
    return lowered(clone_strided(value), to) if isinstance(value, torch.Tensor) else value


def _widened(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(_WIDE[value.dtype]) if value.dtype in _WIDE else _own(value)
    return _WIDE.get(value, value) if isinstance(value, torch.dtype) else value


def _write_back(wrong: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Writes a corrupted result to the memory that an in-place operator wrote, if it fits, so that aliases see it."""
    if wrong.dtype != right.dtype or wrong.shape != right.shape:
        return wrong
    return right.copy_(wrong)


def _some_element(wanted: schema.ValueClass, operands: list[Any]) -> bool:
    return any(
        bool(_TESTS[wanted](t).any())
        for value in operands
        for t in flatten_result(value if isinstance(value, (list, torch.Tensor)) else None)  # pyright: ignore[reportUnknownArgumentType] # operands are untyped
        if t is not None and t.numel() and not t.is_complex() and t.dtype != torch.bool
    )


def _subnormal(t: torch.Tensor) -> torch.Tensor:
    if not t.is_floating_point():
        return torch.zeros((), dtype=torch.bool)
    return (t != 0) & (t.abs() < torch.finfo(t.dtype).smallest_normal)


def _negative(t: torch.Tensor) -> torch.Tensor:
    return t < 0


def _zero(t: torch.Tensor) -> torch.Tensor:
    return t == 0


_TESTS: Final[dict[schema.ValueClass, Callable[[torch.Tensor], torch.Tensor]]] = {
    "negative": _negative,
    "nan": torch.isnan,
    "inf": torch.isinf,
    "zero": _zero,
    "subnormal": _subnormal,
}
