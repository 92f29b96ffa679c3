"""Translates ONNX's operators on sequences and optional values.

Which tensors a sequence holds is known before the program runs: the operators are resolved by the names of values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch

from mindgap.onnx_files.model_proto import attributes_of, op_of
from mindgap.onnx_files.node import OnnxNode
from mindgap.sources.translated_model import MissingTranslation, Untranslated

if TYPE_CHECKING:
    from mindgap.onnx_files.translation import Scope, Translation

#: The operators -> operands that must be known before the program runs.
SEQUENCE_OPERATORS: Final[Mapping[str, tuple[int, ...]]] = {
    "SequenceConstruct": (), "SequenceEmpty": (), "SequenceInsert": (2,), "SequenceErase": (1,), "SequenceAt": (1,),
    "SequenceLength": (), "SplitToSequence": (1,), "ConcatFromSequence": (), "Optional": (), "OptionalGetElement": (),
    "OptionalHasElement": (),
}  # fmt: skip


def translate_sequence(work: Translation, node: Any, name: str, scope: Scope) -> None:
    """Translates one node. Raises `MissingTranslation` where values of the inputs decide which tensors it holds."""
    op, attributes, result = op_of(node), attributes_of(node), node.output[0]
    held = [work.sequences.get(scope.of(each), (scope.of(each),)) if each else () for each in node.input]
    first = held[0] if held else ()
    if op == "OptionalGetElement" or (op == "Optional" and held):
        work.alias(scope.of(node.input[0]), result, scope)
    elif op == "SequenceAt":
        at = _position(work, node, 1, scope)
        if at is None or not -len(first) <= at < len(first):
            raise Untranslated(f"position {at} of a sequence of {len(first)}")
        work.alias(first[at], result, scope)
    elif op in ("SequenceLength", "OptionalHasElement"):
        count = torch.tensor(len(first)) if op == "SequenceLength" else torch.tensor(bool(first))
        work.keep(scope.bind(result), count, folded=True)
    elif op == "ConcatFromSequence":
        joined = "mindgap.Stack" if attributes.get("new_axis", 0) else "Concat"
        one = OnnxNode(joined, {"axis": attributes["axis"]}, {}, (True,), name=name)
        work.ran(one, first, (scope.bind(result),), first)
    elif op == "SplitToSequence":
        work.sequences[scope.bind(result)] = _split(work, node, name, scope)
    else:
        work.sequences[scope.bind(result)] = _changed(
            op, held, _position(work, node, 2 - (op == "SequenceErase"), scope)
        )


def _changed(op: str, held: Sequence[tuple[str, ...]], at: int | None) -> tuple[str, ...]:
    """The values of a sequence that is made, grows or shrinks."""
    if op not in ("SequenceInsert", "SequenceErase"):
        return tuple(each for names in held for each in names)
    names = [*held[0]]
    if op == "SequenceErase":
        del names[-1 if at is None else at]
    else:
        names.insert(len(names) if at is None else at, held[1][0])
    return tuple(names)


def _position(work: Translation, node: Any, place: int, scope: Scope) -> int | None:
    if op_of(node) not in ("SequenceAt", "SequenceInsert", "SequenceErase"):
        return None
    if place >= len(node.input) or not node.input[place]:
        return None
    if scope.of(node.input[place]) not in work.known:
        raise MissingTranslation(f"operand {place} of {op_of(node)} is computed from the inputs")
    return int(work.value(node.input[place], scope).reshape(()))


def _split(work: Translation, node: Any, name: str, scope: Scope) -> tuple[str, ...]:
    """The pieces of a tensor, each a separate value: of equal length, or of the lengths that an operand lists."""
    attributes, whole = attributes_of(node), work.value(node.input[0], scope)
    axis: int = attributes.get("axis", 0)
    keepdims = True
    total = int(whole.shape[axis])
    if len(node.input) > 1 and node.input[1]:
        if scope.of(node.input[1]) not in work.known:
            raise MissingTranslation("operand 1 of SplitToSequence is computed from the inputs")
        lengths = work.value(node.input[1], scope)
        step = int(lengths) if not lengths.dim() else 0
        sizes = [min(step, total - at) for at in range(0, total, step)] if step else [int(n) for n in lengths]
    else:
        sizes, keepdims = [1] * total, bool(attributes.get("keepdims", 1))
    pieces, source, start = list[str](), scope.of(node.input[0]), 0
    for index, size in enumerate(sizes):
        piece = scope.bind(f"{node.output[0]}#{index}")
        given = {"axis": axis, "index": start, "size": size, "keepdims": keepdims}
        work.ran(OnnxNode("mindgap.Piece", given, {}, (True,), name=f"{name}#{index}"), (source,), (piece,), (source,))
        pieces.append(piece)
        start += size
    return tuple(pieces)
