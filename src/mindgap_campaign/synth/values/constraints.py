"""Propagates the constraints that operators put on operand values backwards to the inputs of a graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mindgap.aten.operators import facts
from mindgap.graph import Arg, DType, Graph, Node, Ref, TensorSpec, operands, refs
from mindgap_campaign.synth.mutation.schemas import arguments
from mindgap_campaign.synth.values.rules import ValueRule, ValueRules

INF: Final = math.inf
_ARITHMETIC: Final = frozenset({"add", "sub", "mul", "div", "rsub", "floor_divide"})
#: Lists of indices, of which only masks decide how many elements there are.
_LISTS: Final = frozenset({"index", "_unsafe_index", "index_put", "index_put_"})


@dataclass(frozen=True, slots=True)
class ValueConstraint:
    """Every element within [low, high]. `form`: what the elements must be together (`sorted`, `offsets`, `distinct`,
    a kind of matrix), or `index`, which asks for no more but must not be left to chance. `std`: for plain floats, the
    deviation that keeps products at scale; 0 for none.
    """

    low: float = -INF
    high: float = INF
    form: str = ""
    std: float = 0.0

    def __and__(self, other: ValueConstraint) -> ValueConstraint:
        """Returns the constraint that both together make."""
        forms = sorted({self.form, other.form} - {"", "index"}) or sorted({self.form, other.form} - {""})
        stds = [std for std in (self.std, other.std) if std]
        return ValueConstraint(
            max(self.low, other.low),
            min(self.high, other.high),
            forms[0] if forms else "",
            min(stds, default=0.0),
        )

    @property
    def bounded(self) -> bool:
        return self.low > -INF or self.high < INF


@dataclass(frozen=True)
class Constraints:
    """Constraints by value (`of`), and the values on which a shape, an index or an assertion depends (`decisive`)."""

    of: dict[int, ValueConstraint]
    decisive: set[int]


def constraints_of(graph: Graph, rules: ValueRules) -> Constraints:
    """Computes the constraints of all values that a rule reaches, inputs included."""
    constraints = Constraints({}, set())
    for index in reversed(range(len(graph.nodes))):
        node, first = graph.nodes[index], graph.first_value[index]
        _pass_back(graph, node, first, rules, constraints)
        for rule in rules.of(node.op):
            _ask(graph, node, rule, constraints)
        _decide(graph, node, first, rules, constraints)
    return constraints


def passes_constraints_back(node: Node, rules: ValueRules) -> bool:
    """Tells whether a constraint on the node's result follows from constraints on its operands."""
    packet = node.op.split(".")[1].removesuffix("_")
    if packet in rules.exact or packet in rules.layout or packet in rules.safe or packet in _UNARY:
        return True
    return packet in _ARITHMETIC and len(node.args) > 1 and not isinstance(node.args[1], Ref)


def _ask(graph: Graph, node: Node, rule: ValueRule, needs: Constraints) -> None:
    """Applies one rule to one call."""
    bound = arguments(node)
    for name, wanted in rule.when:
        given = bound.get(name)
        if (given.name if isinstance(given, DType) else given) != wanted:
            return
    operand = bound.get(rule.operand)
    items = operand if isinstance(operand, tuple) else (operand,)
    for position, item in enumerate(items):
        if not isinstance(item, Ref):
            continue
        spec = graph.values[item.index]
        if spec is None or (rule.kinds and spec.kind not in rule.kinds):
            continue
        need = _need(graph, rule, bound, spec, position, items)
        if need is not None:
            _add(needs, item.index, need)


def _need(
    graph: Graph, rule: ValueRule, bound: dict[str, Arg], spec: TensorSpec, position: int, items: tuple[Arg, ...]
) -> ValueConstraint | None:
    if rule.fan:
        sizes = [spec.shape[dim] for dim in rule.fan if -len(spec.shape) <= dim < len(spec.shape)]
        if rule.fan_rest:
            sizes = list(spec.shape[1:])
        return ValueConstraint(std=1.0 / math.sqrt(max(math.prod(sizes), 1)))
    if rule.form in ("index", "distinct", "offsets"):
        if spec.kind == "bool":
            return None
        size = _size(graph, rule, bound, position, items)
        if size is None:
            return ValueConstraint(0, 0, rule.form)
        return ValueConstraint(0, size if rule.form == "offsets" else max(size - 1, 0), rule.form)
    return ValueConstraint(rule.low, rule.high, rule.form)


def _size(graph: Graph, rule: ValueRule, bound: dict[str, Arg], position: int, items: tuple[Arg, ...]) -> int | None:
    """Returns the number of positions that an index may have."""
    of = bound.get(rule.of)
    sizes: tuple[int, ...]
    if isinstance(of, Ref):
        spec = graph.values[of.index]
        if spec is None:
            return None
        sizes = spec.shape
    elif isinstance(of, tuple):
        sizes = tuple(size for size in of if isinstance(size, int))
    elif isinstance(of, int):
        return of
    else:
        return None
    dim = bound.get(rule.dim) if isinstance(rule.dim, str) and rule.dim not in ("each", "all") else rule.dim
    if dim == "each":
        dim = _place(graph, position, items)
    if dim == "all" or dim is None:
        return math.prod(sizes)
    dims = dim if isinstance(dim, tuple) else (dim,)
    if not sizes:
        return 1
    if not all(isinstance(d, int) and -len(sizes) <= d < len(sizes) for d in dims):
        return None
    return math.prod(sizes[d] for d in dims if isinstance(d, int))


def _place(graph: Graph, position: int, items: tuple[Arg, ...]) -> int:
    """Returns the dimension of an item in a list of indices; a mask counts for all its dimensions."""
    at = 0
    for item in items[:position]:
        spec = graph.values[item.index] if isinstance(item, Ref) else None
        at += len(spec.shape) if spec is not None and spec.kind == "bool" else 1
    return at


def _add(needs: Constraints, value: int, need: ValueConstraint) -> None:
    held = needs.of.get(value)
    needs.of[value] = need if held is None else held & need


def _pass_back(graph: Graph, node: Node, first: int, rules: ValueRules, needs: Constraints) -> None:
    """Passes the constraint on a result to its operands."""
    for slot in range(len(node.outputs)):
        need = needs.of.get(first + slot)
        if need is None:
            continue
        packet = node.op.split(".")[1].removesuffix("_")
        if packet in rules.exact or (packet in rules.layout and need.form in ("", "index")):
            if slot == 0 or packet in rules.all_results:
                _constrain_operands(node, rules, packet, need, needs)
        elif need.form in ("", "index"):
            _through(graph, node, packet, need, needs)


def _constrain_operands(node: Node, rules: ValueRules, packet: str, need: ValueConstraint, needs: Constraints) -> None:
    if packet in rules.all_operands:
        named = arguments(node)
        values = [v for name, arg in named.items() if name not in ("condition", "mask") for v in refs(arg)]
    else:
        values = list(refs(node.args[0])) if node.args else []
    if facts(node.op).mutates and node.op.split(".")[1] == "copy_":
        values = list(refs(node.args[1]))
    for value in values:
        _add(needs, value, need)


def _through(graph: Graph, node: Node, packet: str, need: ValueConstraint, needs: Constraints) -> None:
    """Inverts arithmetic: constrains an operand so that the result is within the need."""
    if packet in _UNARY and node.args and isinstance(node.args[0], Ref):
        low, high = _UNARY[packet](need.low, need.high)
        _add(needs, node.args[0].index, ValueConstraint(low, high, need.form))
        return
    if packet not in _ARITHMETIC or len(node.args) < 2:
        return
    one, other = node.args[0], node.args[1]
    alpha = dict(node.kwargs).get("alpha", 1)
    if not isinstance(one, Ref) or not isinstance(alpha, (int, float)) or isinstance(alpha, bool):
        return
    if isinstance(other, Ref):
        _pair(packet, one.index, other.index, need, needs, alpha)
    elif isinstance(other, (int, float)) and math.isfinite(other):
        low, high = _shifted(packet, need.low, need.high, float(other), float(alpha))
        _add(needs, one.index, ValueConstraint(low, high, need.form))


def _pair(packet: str, one: int, other: int, need: ValueConstraint, needs: Constraints, alpha: int | float) -> None:
    """Divides the constraint on a result evenly between two tensors, if both may be non-negative."""
    if need.high < 0 or (need.low < 0 and need.high == INF and need.low == -INF):
        return
    low, high = max(need.low, 0.0), need.high
    if packet == "add" and alpha == 1:
        part = ValueConstraint(low / 2, high / 2, need.form)
    elif packet == "mul":
        part = ValueConstraint(math.sqrt(low), math.sqrt(high) if high < INF else INF, need.form)
    elif packet == "div" and low > 0:
        part = ValueConstraint(math.sqrt(low), INF, need.form)
    else:
        return
    _add(needs, one, part)
    _add(needs, other, part)


def _shifted(packet: str, low: float, high: float, by: float, alpha: float) -> tuple[float, float]:
    """Returns the interval of x for which x·by, x + alpha·by … are within [low, high]."""
    match packet:
        case "add":
            return low - alpha * by, high - alpha * by
        case "sub":
            return low + alpha * by, high + alpha * by
        case "rsub":
            return (by - high) / alpha, (by - low) / alpha
        case "mul" if by > 0:
            return low / by, high / by
        case "mul" if by < 0:
            return high / by, low / by
        case "div" | "floor_divide" if by > 0:
            return low * by, high * by
        case "div" if by < 0:
            return high * by, low * by
        case _:
            return -INF, INF


def _decide(graph: Graph, node: Node, first: int, rules: ValueRules, needs: Constraints) -> None:
    """Marks the values on which shapes, indices and assertions depend."""
    made = range(first, first + len(node.outputs))
    # `max` and `min` give indices besides values; of two tensors, or of a whole one, they give a value alone.
    packet = node.op.split(".")[1]
    safe = packet in rules.safe and (packet not in ("max", "min") or len(node.outputs) == 2)
    if not safe and any(value in needs.decisive for value in made):
        needs.decisive.update(operands(node))
    needs.decisive.update(shape_operands(graph, node, rules))
    needs.decisive.update(index_operands(node, rules))


def shape_operands(graph: Graph, node: Node, rules: ValueRules) -> tuple[int, ...]:
    """Returns the operands whose values decide the shape of a result, or whether the call succeeds."""
    packet = node.op.split(".")[1]
    if packet not in rules.decides and not packet.startswith("_assert"):
        return ()
    bound = arguments(node)
    values = [value for name in rules.decides.get(packet) or tuple(bound) for value in refs(bound.get(name))]
    if packet in _LISTS:
        return tuple(v for v in values if (spec := graph.values[v]) is not None and spec.kind == "bool")
    return tuple(values)


def index_operands(node: Node, rules: ValueRules) -> tuple[int, ...]:
    """Returns the operands that are indices, or that have a constraint beyond a range."""
    names = [rule.operand for rule in rules.of(node.op) if rule.form]
    if not names:
        return ()
    bound = arguments(node)
    return tuple(dict.fromkeys(value for name in names for value in refs(bound.get(name))))


def _log(value: float) -> float:
    return math.log(value) if 0 < value < INF else (-INF if value <= 0 else INF)


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else INF


def _positive_inverse(low: float, high: float) -> tuple[float, float]:
    if low < 0:
        return -INF, INF
    return (1 / high if high not in (0.0, INF) else 0.0), (1 / low if low > 0 else INF)


def _inverse_square(low: float, high: float) -> tuple[float, float]:
    least, largest = _positive_inverse(low, high)
    return (least * least if least > 0 else least), largest * largest


#: For y = f(x) within [low, high]: an interval of x.
_UNARY: Final[dict[str, Callable[[float, float], tuple[float, float]]]] = {
    "neg": lambda low, high: (-high, -low),
    "exp": lambda low, high: (_log(low), _log(high)),
    "sqrt": lambda low, high: (max(low, 0.0) ** 2, high * high if high < INF else INF),
    "log": lambda low, high: (_exp(low), _exp(high)),
    "rsqrt": _inverse_square,
    "reciprocal": _positive_inverse,
    "relu": lambda low, high: (low if low > 0 else -INF, high),
    "abs": lambda low, high: (low if low > 0 else (-high if high < INF else -INF), high),
    "square": lambda low, high: (math.sqrt(low) if low > 0 else -INF, math.sqrt(high) if 0 <= high < INF else INF),
    "log1p": lambda low, high: (_exp(low) - 1, _exp(high) - 1 if high < 700 else INF),
    "expm1": lambda low, high: (_log(low + 1), _log(high + 1)),
    "softplus": lambda low, high: (low if low > 0 else -INF, high),
}
