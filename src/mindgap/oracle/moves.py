"""Operators whose results are elements of their operands: what is rounded already needs no rounding again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mindgap.graph import Arg, Node
from mindgap.oracle.precision import is_real

_MOVES: Final = frozenset(
    {
        "view", "_unsafe_view", "reshape", "permute", "transpose", "t", "numpy_T", "expand", "expand_as", "slice",
        "select", "split", "split_with_sizes", "tensor_split", "chunk", "unbind", "cat", "concat", "stack", "squeeze",
        "unsqueeze", "flatten", "unflatten", "alias", "clone", "contiguous", "detach", "flip", "roll", "movedim",
        "narrow", "view_as", "reshape_as", "diagonal", "repeat", "unfold", "im2col", "pixel_shuffle",
        "pixel_unshuffle", "channel_shuffle", "index", "index_select", "gather", "embedding", "where", "relu", "neg",
        "abs", "maximum", "minimum", "amax", "amin", "max_pool1d", "max_pool2d", "max_pool3d",
        "max_pool2d_with_indices", "max_pool3d_with_indices", "reflection_pad1d", "reflection_pad2d",
        "reflection_pad3d", "replication_pad1d", "replication_pad2d", "replication_pad3d", "upsample_nearest1d",
        "upsample_nearest2d", "upsample_nearest3d", "tril", "triu", "slice_scatter", "select_scatter",
        "lift_fresh", "lift_fresh_copy",
    }
)  # fmt: skip


#: Of these, those that do nothing but look up: no kernel computes a position from a dtype's own numbers.
_LOOKS_UP: Final = frozenset(
    {
        "embedding", "index_select", "index", "gather", "slice", "select", "t", "numpy_T", "transpose", "permute",
        "view", "_unsafe_view", "reshape", "expand", "expand_as", "view_as", "squeeze", "unsqueeze", "flatten",
        "unflatten", "split", "split_with_sizes", "chunk", "unbind", "narrow", "alias", "detach",
    }
)  # fmt: skip


def only_looks_up(packet: str, node: Node, dtypes: Sequence[str]) -> bool:
    """As `only_moves`, out of one operand: a table of embeddings need not be widened for the few rows that are read."""
    return packet in _LOOKS_UP and sum(map(is_real, dtypes)) == 1 and only_moves(packet, node, dtypes)


def only_moves(packet: str, node: Node, dtypes: Sequence[str]) -> bool:
    """Every float result is an element of an operand, or its negative, in the operands' own dtype.

    `dtypes`: those of the operands. False where a number among the arguments may land in the result.
    """
    if packet not in _MOVES or any(_holds_float(arg) for arg in (*node.args, *(arg for _, arg in node.kwargs))):
        return False
    formats = {d for d in dtypes if is_real(d)}
    made = {s.dtype for s in node.outputs if s is not None and is_real(s.dtype)}
    return made == formats and len(made) == 1 and not made & {"complex64", "complex128"}


def _holds_float(arg: Arg) -> bool:
    if isinstance(arg, tuple):
        return any(_holds_float(item) for item in arg)
    return isinstance(arg, (float, complex))
