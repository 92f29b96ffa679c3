"""Finds operators whose results are elements of their operands and therefore need no rounding."""

from __future__ import annotations

from collections.abc import Sequence

from mindgap.graph import Arg, Node
from mindgap.graph.operators import traits
from mindgap.judge.oracle.evaluation.formats import is_real


def only_looks_up(node: Node, dtypes: Sequence[str]) -> bool:
    """Whether a node only looks up elements of one operand: a table of embeddings then need not be widened."""
    return traits(node.op).looks_up and sum(map(is_real, dtypes)) == 1 and only_moves_data(node, dtypes)


def only_moves_data(node: Node, dtypes: Sequence[str]) -> bool:
    """Every float result is an element of an operand, or its negative, in the operands' own dtype.

    `dtypes`: those of the operands. False where a number among the arguments may land in the result.
    """
    known = traits(node.op)
    numbers = (float, complex, int) if known.fills else (float, complex)
    if not known.moves_data or any(_holds(numbers, arg) for arg in (*node.args, *(arg for _, arg in node.kwargs))):
        return False
    formats = {d for d in dtypes if is_real(d)}
    made = {s.dtype for s in node.outputs if s is not None and is_real(s.dtype)}
    return made == formats and len(made) == 1 and not made & {"complex64", "complex128"}


def _holds(numbers: tuple[type, ...], arg: Arg) -> bool:
    if isinstance(arg, tuple):
        return any(_holds(numbers, item) for item in arg)
    return isinstance(arg, numbers)
