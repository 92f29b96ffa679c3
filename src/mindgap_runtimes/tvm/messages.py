"""Classifies the exceptions of TVM: of its front end of PyTorch, its passes, its code generator and its runtime."""

from __future__ import annotations

import re
from typing import Final

from mindgap.graph import Graph
from mindgap.platforms.messages import MessageTable, Reading, refusal

TABLE: Final = MessageTable(
    "TVM",
    (
        refusal(
            "no translation",
            r"^Unsupported function types \[",
            "the front end lists the operators that it has no translation of",
            "AssertionError",
        ),
        refusal(
            "case not supported",
            r"^Unsupported (?:input kind|output type|index type|rounding_mode|(?:transposed )?convolution dim)"
            r"|\bis not (?:yet )?supported(?: yet)?\b|\bnot yet supported\b",
            "the front end says which case of the operator, or kind of program, it does not take",
            "ValueError", "AssertionError",
        ),
        refusal("not implemented", r"", "TVM says so", "NotImplementedError", "OpNotImplemented"),
    ),
)  # fmt: skip
_MISSING: Final = re.compile(r"^Unsupported function types \['(?P<name>[^']+)'")


def read(error: BaseException) -> Reading:
    """Classifies an exception. `operator`: the overload that the front end lacks, without its namespace."""
    message = str(error)
    row = TABLE.find(message, type(error).__name__)
    named = _MISSING.search(message)
    return Reading("failure" if row is None else row.kind, row, "", named["name"] if named else "")


def aten_operator(found: Reading, graph: Graph) -> str:
    """Returns the graph's operator that the message names: its only one, or one of that name; else TVM's name."""
    called = {node.op for node in graph.nodes}
    if len(called) == 1:
        return next(iter(called))
    same = [op for op in called if found.operator and op.partition(".")[2] == found.operator]
    return same[0] if len(same) == 1 else f"aten.{found.operator}" if found.operator else ""


def text(error: BaseException) -> str:
    """The exception's class and message."""
    return f"{type(error).__name__}: {error}"
