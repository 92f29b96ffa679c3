"""Defines groups of interchangeable operators. Arguments are matched by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from mindgap.graph import Arg, GraphError, Node, Ref
from mindgap_campaign.synth.mutation.edit import DraftCall
from mindgap_campaign.synth.mutation.rules.language import RuleError
from mindgap_campaign.synth.mutation.rules.program import check_keys, known_signature
from mindgap_campaign.synth.mutation.schemas import Signature, bind, call, fits, fitted, signature

_KEYS = {"name", "kinds", "members", "from", "fill"}


#: Where PyTorch takes a number for a second tensor (its argument parser has this list).
_TAKE_NUMBERS: Final = frozenset(
    {"add", "sub", "mul", "div", "divide", "multiply", "subtract", "true_divide", "floor_divide"}
)


@dataclass(frozen=True)
class Member:
    """An operator of a group. `fill`: arguments that it needs where the call it replaces has none of that name."""

    op: str
    fill: Mapping[str, Arg]


@dataclass(frozen=True)
class OperatorGroup:
    """A row of `alike.toml`. `kinds`: what the first operand may be. `sources`: operators that may be replaced."""

    name: str
    kinds: frozenset[str]
    members: tuple[Member, ...]
    sources: frozenset[str]


def exchange(node: Node, member: Member) -> DraftCall | None:
    """Builds the call of `member` on the node's tensors, with its other arguments where name and type allow.

    None where a tensor or an argument that it needs is not to be had.
    """
    old, new = signature(node.op), signature(member.op)
    given = bind(node)
    taken: dict[str, Arg] = {}
    for ours, theirs in _tensors(new.op, old.op):
        if theirs in given and given[theirs] is not None:
            taken[ours] = given[theirs]
            if not isinstance(given[theirs], (Ref, tuple)) and member.op.split(".")[1].rstrip("_") not in _TAKE_NUMBERS:
                return None
        elif new.named[ours].required and new.named[ours].type == "Optional[Tensor]":
            taken[ours] = None
        elif new.named[ours].required:
            return None
    for parameter in new.parameters:
        if parameter.tensor or parameter.type.startswith("List[Tensor") or parameter.name in taken:
            continue
        if parameter.name in given and parameter.name in old.named:
            try:
                value = fitted(given[parameter.name], parameter.type)
            except ValueError:
                return None
            if fits(value, parameter.type):
                taken[parameter.name] = value
                continue
        if parameter.name in member.fill:
            taken[parameter.name] = member.fill[parameter.name]
        elif parameter.required:
            return None
    try:
        return call(new.op, taken, len(node.outputs))
    except GraphError:
        return None


@cache
def _tensors(new: str, old: str) -> tuple[tuple[str, str], ...]:
    """Maps tensors of the new call to those of the old one: in order, lists to lists."""
    ours, theirs = _tensor_names(signature(new)), _tensor_names(signature(old))
    pairs = [(name, theirs[at]) for at, name in enumerate(ours) if at < len(theirs)]
    pairs += [(name, name) for name in ours[len(theirs) :]]
    return tuple(pairs)


def _tensor_names(known: Signature) -> list[str]:
    return [p.name for p in known.parameters if p.tensor or p.type.startswith("List[Tensor")]


def parse(row: Mapping[str, Any], where: str) -> OperatorGroup:
    """Parses a row of the table and checks it against the schemas. Raises `RuleError`.

    `members` are names, or names with what to fill in: `{op = "aten.elu.default", alpha = 0.5}`; `fill` is for all.
    """
    check_keys(row, _KEYS, ("name", "kinds", "members"), where)
    where = f"{where} ({row['name']})"
    members = tuple(_member(item, row.get("fill", {}), where) for item in row["members"])
    if len({m.op for m in members}) != len(members):
        raise RuleError(f"{where}: a member is named twice")
    sources = [m.op for m in members] + list(row.get("from", ()))
    slots = {known_signature(op, where).results for op in sources}
    if len(slots) != 1:
        raise RuleError(f"{where}: its operators return different numbers of tensors ({sorted(slots)})")
    return OperatorGroup(row["name"], frozenset(row["kinds"]), members, frozenset(sources))


def _member(item: str | Mapping[str, Any], fill: Mapping[str, Any], where: str) -> Member:
    own: Mapping[str, Any] = {} if isinstance(item, str) else {k: v for k, v in item.items() if k != "op"}
    op = item if isinstance(item, str) else item.get("op", "")
    known = known_signature(op, where)
    for name in own:
        if name not in known.named:
            raise RuleError(f"{where}: {op} has no argument {name!r} ({', '.join(known.named)})")
    filled: dict[str, Arg] = {}
    for name, raw in {**fill, **own}.items():
        if name in known.named:
            value = constant(raw)
            if not fits(value, known.named[name].type):
                raise RuleError(f"{where}: {raw!r} is no {known.named[name].type} ({op}, {name})")
            filled[name] = value
    return Member(op, filled)


def constant(raw: Any) -> Arg:
    """Converts a value of a table to an argument; the text "None" means None."""
    if isinstance(raw, Sequence) and not isinstance(raw, str):
        return tuple(constant(item) for item in raw)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] # TOML has no types
    return None if raw == "None" else raw
