"""Checks discrete results (comparisons, orders, steps) against the choices that rounding could have led to.

A comparison, an argmax, a sort, a cast to integers turns a difference in the last bit into a different value. A
platform's own choice is plausible where its operands, moved by 16 σ, could have led to it; then it is imposed on
the shadows before anything downstream is judged. Exact ties leave any choice among the tied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

import torch

from mindgap.graph import Graph, Node, Ref, operands
from mindgap.graph.operators import traits
from mindgap.judge.oracle.evaluation.float64 import bind_call, cast_operand, evaluate, neutral_float64, packet_of
from mindgap.judge.oracle.evaluation.formats import FORMATS, is_real
from mindgap.judge.oracle.examination import SIGMAS

#: The operators that round to steps, as functions that never fall.
STEPS: Final[dict[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "floor": torch.floor, "ceil": torch.ceil, "round": torch.round, "trunc": torch.trunc, "fix": torch.trunc,
    "sign": torch.sign, "sgn": torch.sign,
}  # fmt: skip

#: Between a rounding to steps and a cast to integers, these do not round whole numbers and never fall, or never rise.
_MONOTONE: Final = frozenset({"add", "sub", "rsub", "clamp", "clip", "hardtanh", "relu", "relu6"})
_ROUNDINGS: Final = frozenset({"floor", "ceil", "round", "trunc", "fix"})

#: The value of a number in S, and its σ.
Lookup = Callable[[int], tuple[torch.Tensor, torch.Tensor]]


def decision_slots(graph: Graph, nodes: Iterable[int] | None = None) -> dict[int, int]:
    """Value number -> node index, for every result that rounding can flip; of these nodes, where they are given."""
    found: dict[int, int] = {}
    for index in range(len(graph.nodes)) if nodes is None else nodes:
        node = graph.nodes[index]
        first = graph.first_value[index]
        known, packet = traits(node.op), packet_of(node.op)
        rounds = any((s := graph.values[i]) is not None and is_real(s.dtype) for i in operands(node))
        for slot, spec in enumerate(node.outputs):
            if spec is None or (known.decides == "order" and slot != len(node.outputs) - 1):
                continue
            # Integers do not round, but equal ones may be picked in any order.
            decided = not is_real(spec.dtype) or known.rounds_to_steps
            picks = known.decides == "order" and (len(node.outputs) > 1 or packet.startswith("arg"))
            if decided and (rounds or picks):
                found[first + slot] = index
    return found


def deciders(graph: Graph, number: int, slots: Mapping[int, int]) -> frozenset[int]:
    """The values that rounding can flip and that lead to a truth value or a whole number through others of these.

    `slots`: those of the graph (`decision_slots`).
    """
    found, seen, waiting = set[int](), {number}, [number]
    while waiting:
        value = waiting.pop()
        spec = graph.values[value]
        if spec is None or is_real(spec.dtype):
            continue
        if value in slots:
            found.add(value)
        elif graph.producer[value] >= 0:
            new = set(operands(graph.nodes[graph.producer[value]])) - seen
            seen |= new
            waiting += new
    return frozenset(found)


def positions(graph: Graph) -> frozenset[int]:
    """The values that say where an element was, not what it is: distances between them mean nothing."""
    found: set[int] = set()
    for index, node in enumerate(graph.nodes):
        packet, last = packet_of(node.op), len(node.outputs) - 1
        picks = traits(node.op).decides in ("order", "pooling") and (last > 0 or packet.startswith("arg"))
        spec = node.outputs[last] if node.outputs else None
        if picks and spec is not None and not is_real(spec.dtype):
            found.add(graph.first_value[index] + last)
    return frozenset(found)


def rounded_before(graph: Graph, number: int) -> tuple[int, tuple[int, ...]] | None:
    """The operand of the rounding to steps that an integer comes from through casts, clamps and sums with numbers, and
    the nodes from that rounding on; None where it comes from elsewhere."""
    chain: list[int] = []
    while (index := graph.producer[number]) >= 0:
        node, refs = graph.nodes[index], operands(graph.nodes[index])
        known, packet = traits(node.op), packet_of(node.op)
        if len(refs) != 1 or len(node.outputs) != 1:
            return None
        chain.append(index)
        number = refs[0]
        if packet in _ROUNDINGS:
            return None if dict(node.kwargs).get("decimals") else (number, tuple(reversed(chain)))
        if not known.casts and packet not in _MONOTONE:
            return None
    return None


def _quantised(graph: Graph, number: int, chosen: torch.Tensor, lookup: Lookup) -> torch.Tensor | None:
    """An integer that was rounded to a step before: what the steps next to x ± 16 σ become. None for another one."""
    found = rounded_before(graph, number)
    if found is None:
        return None
    operand, chain = found
    x, sigma = lookup(operand)
    ends: list[torch.Tensor] = []
    with neutral_float64():
        for side in (-1, 1):
            value, source = x + side * SIGMAS * sigma, operand
            for index in chain:
                call = bind_call(graph, graph.nodes[index])
                if not call.traits.casts:  # a cast leaves whole numbers as they are
                    (value,) = evaluate(call, *call.bind({source: value}))
                    value = value.to(torch.float64)
                source = graph.first_value[index]
            ends.append(value)
    choice = chosen.to(torch.float64)
    return ~((choice >= torch.minimum(*ends)) & (choice <= torch.maximum(*ends)))


def implausible(graph: Graph, number: int, chosen: torch.Tensor, lookup: Lookup) -> torch.Tensor | None:
    """Mask of the elements of a decided value that no rounding upstream explains; None where no rule applies."""
    node = graph.nodes[graph.producer[number]]
    known = traits(node.op)
    arguments: list[Any] = list(node.args)
    if known.decides == "comparison":
        return _compared(arguments, chosen, lookup, graph, number)
    if known.decides == "order" and arguments and isinstance(arguments[0], Ref):
        return _picked(node, arguments, chosen, lookup, number)
    if known.decides == "pooling":
        return _pooled(arguments, chosen, lookup, number)
    source = cast_operand(node) if known.casts else arguments[0] if known.rounds_to_steps else None
    if isinstance(source, Ref):
        if chosen.dtype == torch.bool:
            return _is_nonzero(source.index, chosen, lookup)
        quantised = None if known.rounds_to_steps else _quantised(graph, number, chosen, lookup)
        return _stepped(node, source.index, chosen, lookup) if quantised is None else quantised
    # The bits of a float, their hash, its place in a grid: on operands that carry noise, a few replays do not show what
    # else there may be. On equal operands the answer must be the same.
    if any(bool((lookup(operand)[1] > 0).any()) for operand in operands(node)[:2]):
        return torch.zeros(chosen.shape, dtype=torch.bool)
    return None


def _operand(argument: Any, lookup: Lookup) -> tuple[torch.Tensor, torch.Tensor]:
    if isinstance(argument, Ref):
        value, sigma = lookup(argument.index)
        return value.to(torch.float64), sigma
    return torch.tensor(float(argument), dtype=torch.float64), torch.zeros(())


def _compared(arguments: list[Any], chosen: torch.Tensor, lookup: Lookup, graph: Graph, number: int) -> torch.Tensor:
    (a, sigma_a), (b, sigma_b) = _operand(arguments[0], lookup), _operand(arguments[1], lookup)
    specs = [graph.values[r.index] for r in arguments[:2] if isinstance(r, Ref)]
    u = max((FORMATS[s.dtype].u for s in specs if s is not None and is_real(s.dtype)), default=0.0)
    noise = SIGMAS * (sigma_a + sigma_b)
    # Only a value that carries noise may also sit on the other side of its own last rounding, or of a tie.
    reach = noise + 2 * u * torch.maximum(a.abs(), b.abs())
    near = (noise > 0) & (torch.nan_to_num((a - b).abs(), nan=torch.inf) <= reach)
    exact, _ = lookup(number)
    return (chosen != exact) & ~near.expand(chosen.shape)


def _picked(node: Node, arguments: list[Any], chosen: torch.Tensor, lookup: Lookup, number: int) -> torch.Tensor:
    packet = packet_of(node.op)
    x, sigma = _operand(arguments[0], lookup)
    named = dict(node.kwargs)
    plain = [a for a in arguments[1:] if not isinstance(a, Ref)]
    whole = packet in ("argmax", "argmin") and (not plain or plain[0] is None) and named.get("dim") is None
    if whole:
        x, sigma = x.flatten(), sigma.expand(x.shape).flatten()
    dim, keep = _dim_of(packet, plain, named, x.dim()), chosen.dim() == x.dim()
    if x.dim() == 0:
        return chosen != 0
    positions = chosen if keep and not whole else chosen.unsqueeze(dim) if not whole else chosen.reshape(1)
    valid = (positions >= 0) & (positions < x.shape[dim])
    inside = positions.clamp(0, max(x.shape[dim] - 1, 0))
    exact, _ = lookup(number)
    expected = exact if keep and not whole else exact.unsqueeze(dim) if not whole else exact.reshape(1)
    spread = sigma.expand(x.shape)
    got, wanted = x.gather(dim, inside), x.gather(dim, expected)
    near = (got - wanted).abs() <= SIGMAS * (spread.gather(dim, inside) + spread.gather(dim, expected))
    tied = (got == wanted) | (torch.isnan(got) & torch.isnan(wanted))
    if named.get("stable") is True:
        tied &= inside == expected
        near &= got != wanted
    bad = ~(valid & (near | tied))
    if packet in ("sort", "argsort", "topk") and positions.numel():
        bad |= _repeated(inside, dim)
    return bad.reshape(chosen.shape)


def _repeated(positions: torch.Tensor, dim: int) -> torch.Tensor:
    """Elements whose position occurs more than once along `dim`."""
    ordered, order = positions.sort(dim)
    same = torch.zeros_like(ordered, dtype=torch.bool)
    length = ordered.shape[dim]
    if length > 1:
        equal = ordered.narrow(dim, 1, length - 1) == ordered.narrow(dim, 0, length - 1)
        same.narrow(dim, 1, length - 1).logical_or_(equal)
        same.narrow(dim, 0, length - 1).logical_or_(equal)
    return torch.zeros_like(same).scatter(dim, order, same)


def _dim_of(packet: str, plain: list[Any], named: dict[str, Any], rank: int) -> int:
    position = 1 if packet in ("topk", "kthvalue") else 0
    chosen = named.get("dim", plain[position] if len(plain) > position else None)
    if isinstance(chosen, bool) or chosen is None:
        return -1 if rank else 0
    return int(chosen)


def _pooled(arguments: list[Any], chosen: torch.Tensor, lookup: Lookup, number: int) -> torch.Tensor:
    """Indices of a max-pool count within one plane: the values that they name must tie."""
    x, sigma = _operand(arguments[0], lookup)
    exact, _ = lookup(number)
    spatial = chosen.dim() - max(chosen.dim() - 2, 1) if chosen.dim() > 2 else 1
    planes, spread = x.flatten(spatial), sigma.expand(x.shape).flatten(spatial)
    positions, expected = chosen.flatten(spatial), exact.flatten(spatial)
    valid = (positions >= 0) & (positions < planes.shape[-1])
    inside = positions.clamp(0, max(planes.shape[-1] - 1, 0))
    got, wanted = planes.gather(-1, inside), planes.gather(-1, expected)
    noise = SIGMAS * (spread.gather(-1, inside) + spread.gather(-1, expected))
    near = ((got - wanted).abs() <= noise) | (got == wanted) | (torch.isnan(got) & torch.isnan(wanted))
    return ~(valid & near).reshape(chosen.shape)


def _is_nonzero(operand: int, chosen: torch.Tensor, lookup: Lookup) -> torch.Tensor:
    """A cast to booleans: zero lies within 16 σ of the operand, if that carries noise at all."""
    x, sigma = lookup(operand)
    return (chosen != (x != 0)) & ~((sigma > 0) & (x.abs() <= SIGMAS * sigma))


def _stepped(node: Node, operand: int, chosen: torch.Tensor, lookup: Lookup) -> torch.Tensor:
    """The step function of x ± 16 σ encloses the choice. A cast to integers truncates.

    `round` to decimals gives numbers that the declared dtype rounds once more.
    """
    x, sigma = lookup(operand)
    decimals = dict(node.kwargs).get("decimals", 0)
    step, slack = STEPS.get(packet_of(node.op), torch.trunc), 0.0
    choice = chosen.to(torch.float64)
    if isinstance(decimals, int) and decimals:
        step = partial(torch.round, decimals=decimals)
        slack = 4 * max(FORMATS[s.dtype].u for s in node.outputs if s is not None) * choice.abs()
    low, high = step(x - SIGMAS * sigma), step(x + SIGMAS * sigma)
    return ~(((choice >= low - slack) & (choice <= high + slack)) | (torch.isnan(choice) & torch.isnan(low)))
