"""Classifies what pnnx and ncnn print, and what ncnn's Python package raises."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from mindgap.graph import Graph
from mindgap.platforms.messages import Kind, MessageTable, refusal

TABLE: Final = MessageTable(
    "ncnn",
    (
        refusal(
            "not converted",
            r"\b(?:not supported|unsupported)\b",
            "pnnx says that it does not convert this case; it writes a model all the same",
        ),
        refusal(
            "no LAPACK",
            r"LAPACK library not found in compilation|requires compiling PyTorch with LAPACK",
            "pnnx folds constants with a libtorch of its own, which is built without LAPACK",
        ),
        refusal(
            "rank of a matrix",
            r"convert numpy\.ndarray to ncnn\.Mat (?:with batch )?only dims",
            "ncnn's matrices have at most four dimensions, besides the batch",
            "RuntimeError",
        ),
    ),
)
_PREFIX: Final = re.compile(r"^(?:aten::|torch\.|Tensor\.|F\.|nn\.)")
_CALLED: Final = re.compile(r"[a-z_]\w*(?=\()")


def kind_of(message: str, raised: str = "") -> Kind:
    """Classifies a message. `raised`: the class of the exception that brought it, if one did."""
    row = TABLE.find(message, raised)
    return "failure" if row is None else row.kind


def refusals(printed: str) -> list[str]:
    """The lines of pnnx's output that are refusals, in order."""
    return [line.strip() for line in printed.splitlines() if TABLE.find(line)]


def aten_operator(graph: Graph, named: Sequence[str]) -> str:
    """Returns the graph's operator that one of the names is for; its only one; else the first name, empty without one.

    `named`: layers that pnnx left as they are (`torch.gt`, `aten::fft_fft`), or functions of its expressions.
    """
    called = list(dict.fromkeys(node.op for node in graph.nodes))
    if len(called) == 1:
        return called[0]
    bases = {op: op.split(".")[1].rstrip("_").lower() for op in called}
    for name in named:
        wanted = _PREFIX.sub("", name).rstrip("_").lower()
        same = [op for op, base in bases.items() if base == wanted]
        if same:
            return same[0]
    return named[0] if named else ""


def functions(expression: str) -> list[str]:
    """The functions that an expression of pnnx's calls: `add` and `fmod` of `0=add(fmod(@0,2),1)`."""
    return _CALLED.findall(expression)
