"""Checks discrete results (comparisons, orders, steps) against the choices that rounding could have led to.

A comparison, an argmax, a sort, a cast to integers turns a difference in the last bit into a different value. A
platform's own choice is plausible where its operands, moved by 16 σ, could have led to it; then it is imposed on
the shadows before anything downstream is judged. Exact ties leave any choice among the tied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch

from mindgap.graph import Graph, Node, Ref, operands
from mindgap.graph.operators import traits
from mindgap.judge.oracle.evaluation.float64 import bind_call, cast_operand, evaluate, neutral_float64, packet_of
from mindgap.judge.oracle.evaluation.formats import FORMATS, is_real
from mindgap.judge.oracle.evaluation.unordered import best_first, in_any_order
from mindgap.judge.oracle.examination import SIGMAS

#: The operators that round to steps, as functions that never fall.
STEPS: Final[dict[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "floor": torch.floor, "ceil": torch.ceil, "round": torch.round, "trunc": torch.trunc, "fix": torch.trunc,
    "sign": torch.sign, "sgn": torch.sign,
}  # fmt: skip

#: Between a rounding to steps and a cast to integers, these do not round whole numbers and never fall, or never rise.
_MONOTONE: Final = frozenset({"add", "sub", "rsub", "clamp", "clip", "hardtanh", "relu", "relu6"})
#: Between truth values and what is counted or decided of them, these never fall.
_RISING: Final = frozenset({
    "sum", "count_nonzero", "any", "all", "amax", "amin", "logical_and", "logical_or", "bitwise_and", "bitwise_or",
    "__and__", "__or__", "to", "_to_copy", "view", "reshape", "flatten", "clone", "detach", "alias", "squeeze",
    "unsqueeze",
})  # fmt: skip
_OF_CLASSES: Final = frozenset({"isnan", "isinf", "isfinite", "isposinf", "isneginf"})
_NOT: Final = frozenset({"logical_not", "bitwise_not"})
_ROUNDINGS: Final = frozenset({"floor", "ceil", "round", "trunc", "fix"})

#: The value of a number in S, and its σ.
Lookup = Callable[[int], tuple[torch.Tensor, torch.Tensor]]


def decision_slots(graph: Graph, nodes: Iterable[int] | None = None) -> dict[int, int]:
    """Value number -> node index, for every result that rounding can flip; of these nodes, where they are given."""
    slots: dict[int, int] = {}
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
                slots[first + slot] = index
    return slots


@dataclass(frozen=True)
class Deciders:
    """What decides a truth value or a whole number: values that rounding can flip, and what is computed of them.

    `numbers`: those values. `nodes`: the nodes from them to the result, in order. `signs`: by number, 1 where the
    result never falls as the value rises, -1 where it never rises; None where some node does both.
    """

    numbers: frozenset[int]
    nodes: tuple[int, ...] = ()
    signs: Mapping[int, int] | None = None


def deciders(graph: Graph, number: int, slots: Mapping[int, int]) -> Deciders:
    """The values that rounding can flip and that lead to a truth value or a whole number through others of these.

    `slots`: those of the graph (`decision_slots`).
    """
    by_number: dict[int, set[int]] = {}
    nodes, known, waiting = set[int](), {(number, 1)}, [(number, 1)]
    monotone = True
    while waiting:
        value, sign = waiting.pop()
        spec, index = graph.values[value], graph.producer[value]
        if spec is None or is_real(spec.dtype):
            continue
        if value in slots:
            by_number.setdefault(value, set()).add(sign)
        elif index >= 0:
            nodes.add(index)
            packet = packet_of(graph.nodes[index].op)
            negates = packet in _NOT and spec.dtype == "bool"
            monotone &= packet in _RISING or negates
            new = {(each, -sign if negates else sign) for each in operands(graph.nodes[index])} - known
            known |= new
            waiting += new
    monotone &= all(len(signs) == 1 for signs in by_number.values())
    signs = {each: min(by_number[each]) for each in by_number} if monotone else None
    return Deciders(frozenset(by_number), tuple(sorted(nodes)), signs)


def extremes(
    graph: Graph, number: int, by: Deciders, flips: Mapping[int, torch.Tensor], values: Mapping[int, Any]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The least and the largest that a value may be where these elements of its deciders may flip.

    `by`: with signs; all its values are truth values. `flips`: their masks, by number. `values`: S's.
    """
    assert by.signs is not None
    ends: list[torch.Tensor] = []
    for side in (-1, 1):
        made: dict[int, Any] = {}
        for each, sign in by.signs.items():
            made[each] = values[each] | flips[each] if sign == side else values[each] & ~flips[each]
        with neutral_float64():
            for index in by.nodes:
                call = bind_call(graph, graph.nodes[index])
                read = {n: made[n] if n in made else values[n] for n in operands(call.node)}
                made.update(enumerate(evaluate(call, *call.bind(read)), graph.first_value[index]))
        ends.append(made[number])
    return ends[0], ends[1]


def surely_finite(graph: Graph, number: int, lookup: Lookup) -> torch.Tensor:
    """Where a test for NaN or infinity sees a number that 16 σ keep far from overflow. Nowhere for other operators."""
    node = graph.nodes[graph.producer[number]]
    spec = graph.values[operands(node)[0]] if packet_of(node.op) in _OF_CLASSES else None
    if spec is None or not is_real(spec.dtype):
        return torch.zeros((), dtype=torch.bool)
    x, sigma = lookup(operands(node)[0])
    return torch.isfinite(x) & (x.abs() + SIGMAS * sigma < FORMATS[spec.dtype].largest / 4)


def may_pick_another(graph: Graph, number: int, lookup: Lookup) -> bool:
    """Whether rounding may make an operator that orders elements choose another one: one lies within 16 σ."""
    first = graph.nodes[graph.producer[number]].args[0]
    if not isinstance(first, Ref) or lookup(first.index)[0].dim() == 0:
        return False
    rows = ordered_rows(graph, number, lookup)
    if rows.x.numel() == 0 or rows.exact.numel() == 0:
        return False
    # Rows first, so that neighbours are those of dimension 0.
    x, reach, chosen = (t.movedim(rows.dim, 0) for t in (rows.x, SIGMAS * rows.sigma, rows.exact))
    if len(chosen) == 1:
        near = (x - x.gather(0, chosen)).abs() <= reach + reach.gather(0, chosen)
        return bool(near.scatter(0, chosen, value=False).any())
    # Where some elements lie within reach of each other, two neighbours in the order do.
    taken = torch.zeros(x.shape, dtype=torch.bool).scatter(0, chosen, value=True)
    ordered, order = x.sort(0)
    reach, taken = reach.gather(0, order), taken.gather(0, order)
    near = (ordered[1:] - ordered[:-1]).abs() <= reach[1:] + reach[:-1]
    return bool((near & (taken[1:] | taken[:-1])).any())


def positions(graph: Graph) -> frozenset[int]:
    """The values that say where an element was, not what it is: distances between them mean nothing."""
    places: set[int] = set()
    for index, node in enumerate(graph.nodes):
        packet, last = packet_of(node.op), len(node.outputs) - 1
        picks = traits(node.op).decides in ("order", "pooling") and (last > 0 or packet.startswith("arg"))
        spec = node.outputs[last] if node.outputs else None
        if picks and spec is not None and not is_real(spec.dtype):
            places.add(graph.first_value[index] + last)
    return frozenset(places)


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
    rounded = rounded_before(graph, number)
    if rounded is None:
        return None
    operand, chain = rounded
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
        return _picked(graph, number, chosen, lookup)
    if known.decides == "pooling":
        return _pooled(node, chosen, lookup, number)
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
    # Only a value that carries noise may also sit on the other side of its last rounding, or of a tie.
    reach = noise + 2 * u * torch.maximum(a.abs(), b.abs())
    near = (noise > 0) & (torch.nan_to_num((a - b).abs(), nan=torch.inf) <= reach)
    exact, _ = lookup(number)
    return (chosen != exact) & ~near.expand(chosen.shape)


@dataclass(frozen=True)
class OrderedRows:
    """What an operator orders: `x` with its `sigma` along `dim`, and which positions there it chooses in S."""

    x: torch.Tensor
    sigma: torch.Tensor
    dim: int
    exact: torch.Tensor

    def like(self, positions: torch.Tensor) -> torch.Tensor:
        """Positions in the shape of `exact`, which has as many dimensions as `x`."""
        return positions.reshape(self.exact.shape)


def ordered_rows(graph: Graph, number: int, lookup: Lookup) -> OrderedRows:
    """Returns what the operator that gives the positions `number` orders. Its operand has a dimension or more."""
    node, (exact, _) = graph.nodes[graph.producer[number]], lookup(number)
    packet, named = packet_of(node.op), dict(node.kwargs)
    x, sigma = _operand(node.args[0], lookup)
    plain = [a for a in node.args[1:] if not isinstance(a, Ref)]
    spread = sigma.expand(x.shape)
    if packet in ("argmax", "argmin") and (not plain or plain[0] is None) and named.get("dim") is None:
        return OrderedRows(x.flatten(), spread.flatten(), 0, exact.reshape(1))
    dim = _dim_of(packet, plain, named, x.dim())
    return OrderedRows(x, spread, dim, exact if exact.dim() == x.dim() else exact.unsqueeze(dim))


def _picked(graph: Graph, number: int, chosen: torch.Tensor, lookup: Lookup) -> torch.Tensor:
    node = graph.nodes[graph.producer[number]]
    if _operand(node.args[0], lookup)[0].dim() == 0:
        return chosen != 0
    rows = ordered_rows(graph, number, lookup)
    x, spread, dim, positions, expected = rows.x, rows.sigma, rows.dim, rows.like(chosen), rows.exact
    valid = (positions >= 0) & (positions < x.shape[dim])
    inside, order = positions.clamp(0, max(x.shape[dim] - 1, 0)), None
    if in_any_order(node):
        order = best_first(node, x.gather(dim, inside), dim)
        inside, valid = inside.gather(dim, order), valid.gather(dim, order)
        expected = expected.gather(dim, best_first(node, x.gather(dim, expected), dim))
    got, wanted = x.gather(dim, inside), x.gather(dim, expected)
    near = (got - wanted).abs() <= SIGMAS * (spread.gather(dim, inside) + spread.gather(dim, expected))
    tied = (got == wanted) | (torch.isnan(got) & torch.isnan(wanted))
    if dict(node.kwargs).get("stable") is True:
        tied &= inside == expected
        near &= got != wanted
    bad = ~(valid & (near | tied))
    if packet_of(node.op) in ("sort", "argsort", "topk") and positions.numel():
        bad |= _repeated(inside, dim)
    bad = bad if order is None else torch.zeros_like(bad).scatter(dim, order, bad)
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


def _pooled(node: Node, chosen: torch.Tensor, lookup: Lookup, number: int) -> torch.Tensor:
    """Indices of a max-pool count within one plane, with or without a batch: the values that they name must tie."""
    x, sigma = _operand(node.args[0], lookup)
    exact, _ = lookup(number)
    spatial = -next(rank for rank in (1, 2, 3) if f"pool{rank}d" in node.op)
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
