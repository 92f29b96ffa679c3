"""Brings the message of a failure or a difference of shape to a form that alike findings share."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_TEXT: Final = 200
#: The operator that a message is about, where it begins with one.
_HEAD: Final = re.compile(r"^((?:aten|prims|torch_nn)\.\w+\.\w+): ")
#: Names of operators in a message, and what runtimes write of an operator's signature.
_NAMED: Final = re.compile(
    r"(?:\bpkg\.[\w.]+::)?\b(?:aten|prims|torch_nn)(?:::|\.|_(?=[a-z]))[\w.]*\w|<OpOverload\([^)]*\)>"
)
_LISTS: Final = re.compile(r"(?: \| Candidates:|\bSignature: ).*$")
#: A runtime's own name of an operator in a message on a dtype, and a shape as OpenVINO writes it, cut off or not.
_OF_OPERATOR: Final = re.compile(r"(of input parameter of operator) \(\w+\)")
_DESCRIBED: Final = re.compile(r"(Descriptor's shape:) \{[^{}]*(?:\}|$)")
#: A function of torchax that a message of Python names.
_TORCHAX: Final = re.compile(r"\b(_aten_\w+)\(\) (?:got|missing|takes)\b")
_TENSOR: Final = re.compile(r"^(?P<dtype>\w+)\[(?P<shape>[\d,]*)\]$")
#: How a message begins that only follows from the failure of an operator with several results.
_CONSEQUENCE: Final = "<built-in function getitem>: "
#: A result without elements that comes back as one number: it does not depend on the operator.
EMPTY_IS_SCALAR: Final = "no elements become a scalar"


def operator_of_message(signature: str) -> str:
    """The overload that a failure signature is about, or ""."""
    parts = [part for part in signature.split(" | ") if not part.startswith(_CONSEQUENCE)]
    head = _HEAD.match(" | ".join(parts))
    return head[1] if head else ""


def message_without_operators(signature: str, functions: Sequence[str]) -> str:
    """A failure signature with `<op>` for each operator that it names, cut before lists of candidates."""
    parts = [part for part in _LISTS.sub("", signature).split(" | ") if not part.startswith(_CONSEQUENCE)]
    text = _NAMED.sub("<op>", " | ".join(parts) or signature)
    text = _DESCRIBED.sub(r"\1 {}", text)
    for function in functions:
        if len(function) > 3:
            text = re.sub(rf"\b_?{re.escape(function)}\w*", "<op>", text, flags=re.IGNORECASE)
    return text.strip()[:_TEXT].rstrip()


def torchax_rule(signature: str) -> str:
    """The function of torchax that was called wrongly, by the message, or ""."""
    match = _TORCHAX.search(signature)
    return match[1] if match else ""


def without_runtime_operator(message: str) -> str:
    """A message on a dtype without the name of the runtime's operator that does not take it."""
    return _OF_OPERATOR.sub(r"\1 <op>", message)


def change_of_structure(signature: str) -> str:
    """What `float32[2,1] becomes float32[2]` has in common with others: a dtype for another, or a change of rank.

    "" where sizes alone differ, or where it is not known.
    """
    expected, becomes, given = signature.partition(" becomes ")
    before, after = _TENSOR.match(expected), _TENSOR.match(given)
    if not becomes or before is None or after is None:
        return ""
    if before["dtype"] != after["dtype"]:
        return f"{before['dtype']} becomes {after['dtype']}"
    sizes, others = before["shape"].split(","), after["shape"].split(",")
    if "0" in sizes and others == [""]:
        return EMPTY_IS_SCALAR
    ranks = len([size for size in sizes if size]), len([size for size in others if size])
    return "" if ranks[0] == ranks[1] else f"rank {ranks[1] - ranks[0]:+d}"
