"""Describes what a rewrite did to the nodes and the constants of an ONNX file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from mindgap.graph import Array, MindgapError
from mindgap.onnx_files.model_proto import node_name, op_of, used_names

_LIBRARY: Final[Any] = onnx  # typed in parts


@dataclass(frozen=True)
class OnnxFile:
    """A file's nodes in order, and its constants, inputs and outputs by name."""

    path: Path
    nodes: tuple[Any, ...]
    constants: Mapping[str, Array]
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]

    def named(self, place: int) -> str:
        """`conv1 (Conv)`."""
        return f"{node_name(self.nodes[place], place)} ({op_of(self.nodes[place])})"

    @property
    def makers(self) -> dict[str, int]:
        """The place of the node that makes each value."""
        return {name: place for place, node in enumerate(self.nodes) for name in node.output if name}


@dataclass(frozen=True, slots=True)
class StructuralChanges:
    """What a rewrite did.

    nodes: how many each file has. gone, added: operators, with how many nodes fewer or more.
    replaced: nodes of the old file, and what stands for them in the new one.
    folded: nodes of the old file whose result is a constant of the new one, or that no input reaches and that are gone.
    changed: constants of one name with other values or another dtype, and how; the largest difference first.
    constants: how many each file has. attributes: those of a node that makes the same value by the same operator and
    that differ: `epsilon of bn (BatchNormalization)`, before, after.
    """

    nodes: tuple[int, int] = (0, 0)
    gone: tuple[tuple[str, int], ...] = ()
    added: tuple[tuple[str, int], ...] = ()
    replaced: tuple[tuple[tuple[str, ...], str], ...] = ()
    folded: tuple[str, ...] = ()
    changed: tuple[tuple[str, str], ...] = ()
    constants: tuple[int, int] = (0, 0)
    attributes: tuple[tuple[str, str, str], ...] = ()


def read_onnx(path: Path) -> OnnxFile:
    """Reads a file with its constants. Raises `MindgapError` for one that is none."""
    try:
        model = _LIBRARY.load(str(path))
    except Exception as error:  # of any type, by what the file holds
        raise MindgapError(f"{path}: it is no ONNX model, or its weights are not there: {error}") from None
    constants = {each.name: _LIBRARY.numpy_helper.to_array(each) for each in model.graph.initializer}
    nodes: list[Any] = []
    for node in model.graph.node:
        held = [each.t for each in node.attribute if each.name == "value" and node.op_type == "Constant"]
        if held:
            constants[node.output[0]] = _LIBRARY.numpy_helper.to_array(held[0])
        else:
            nodes.append(node)
    inputs, outputs = (
        {each.name: each for each in values if each.name not in constants}
        for values in (model.graph.input, model.graph.output)
    )
    return OnnxFile(path, tuple(nodes), constants, inputs, outputs)


def check_one_model(old: OnnxFile, new: OnnxFile) -> None:
    """Raises `MindgapError` where the files take other inputs or give other outputs: they are of two models.

    Outputs are matched by their order. A dimension without a number may be any.
    """
    pairs = [(old.inputs[name], new.inputs[name]) for name in old.inputs if name in new.inputs]
    same = len(pairs) == len(old.inputs) == len(new.inputs) and len(old.outputs) == len(new.outputs)
    pairs += zip(old.outputs.values(), new.outputs.values(), strict=False)
    if not same or not all(_fit(*each) for each in pairs):
        words = _LIBRARY.helper.printable_value_info
        sides = [[", ".join(map(words, side.values())) for side in (e.inputs, e.outputs)] for e in (new, old)]
        texts = [f"{e.path} has {' -> '.join(side)}" for e, side in zip((new, old), sides, strict=True)]
        raise MindgapError(f"not two files of one model, with its inputs and outputs: {'; '.join(texts)}")


def _fit(one: Any, other: Any) -> bool:
    first, second = one.type.tensor_type, other.type.tensor_type
    if first.elem_type != second.elem_type or not (first.HasField("shape") and second.HasField("shape")):
        return first.elem_type == second.elem_type
    sizes = [[dim.dim_value for dim in each.shape.dim] for each in (first, second)]
    return len(sizes[0]) == len(sizes[1]) and all(a == b or not a * b for a, b in zip(*sizes, strict=True))


def structural_changes(old: OnnxFile, new: OnnxFile) -> StructuralChanges:
    """Compares two files of one model by the names of their values."""
    ops = [Counter(op_of(node) for node in each.nodes) for each in (old, new)]
    folded = _folded(old, new)
    return StructuralChanges(
        (len(old.nodes), len(new.nodes)),
        tuple((ops[0] - ops[1]).most_common()), tuple((ops[1] - ops[0]).most_common()),
        tuple(_replaced(old, new, folded)), tuple(old.named(place) for place in folded), tuple(_changed(old, new)),
        (len(old.constants), len(new.constants)), tuple(_attributes(old, new)),
    )  # fmt: skip


def _attributes(old: OnnxFile, new: OnnxFile) -> Iterator[tuple[str, str, str]]:
    makers = new.makers
    for place, node in enumerate(old.nodes):
        other = new.nodes[makers[node.output[0]]] if node.output[0] in makers else None
        if other is None or op_of(other) != op_of(node):
            continue
        ours, theirs = _attributes_of(node), _attributes_of(other)
        for name in sorted({*ours, *theirs}):
            if ours.get(name) != theirs.get(name):
                yield f"{name} of {old.named(place)}", ours.get(name, "left out"), theirs.get(name, "left out")


def _attributes_of(node: Any) -> dict[str, str]:
    """Those of a node, and what others stand for where they are left out: a saved file may spell it out."""
    values: dict[str, Any] = {each.name: each for each in node.attribute if not each.HasField("g")}
    if _LIBRARY.defs.has(node.op_type, node.domain):
        for name, each in _LIBRARY.defs.get_schema(node.op_type, node.domain).attributes.items():
            if each.default_value.type:
                values.setdefault(name, each.default_value)
    given = {name: _LIBRARY.helper.get_attribute_value(each) for name, each in values.items()}
    return {n: f"{v:.6g}" if isinstance(v, float) else f"{' '.join(str(v).split()):.40}" for n, v in given.items()}


def _folded(old: OnnxFile, new: OnnxFile) -> list[int]:
    """The nodes of the old file that no input reaches and that the new file has as constants, or not at all."""
    constant, makers, places = {*old.constants}, new.makers, list[int]()
    for place, node in enumerate(old.nodes):
        if all(name in constant for name in used_names(node) if name):
            constant.update(node.output)
            places += [place] if not any(name in makers for name in node.output) else []
    return places


def _replaced(old: OnnxFile, new: OnnxFile, folded: Sequence[int]) -> Iterator[tuple[tuple[str, ...], str]]:
    """For each node of the new file that makes a value of the old one: the old nodes that it stands for, if those are
    several or of another operator."""
    makers, known = old.makers, {*new.makers, *new.inputs}
    for place, node in enumerate(new.nodes):
        wanted, stands_for = [name for name in node.output if name in makers][:1], set[int]()
        while wanted:
            maker = makers.get(wanted.pop())
            if maker is not None and maker not in folded and maker not in stands_for:
                stands_for.add(maker)
                wanted += [name for name in used_names(old.nodes[maker]) if name not in known]
        if stands_for and (len(stands_for) > 1 or op_of(old.nodes[min(stands_for)]) != op_of(node)):
            yield tuple(old.named(each) for each in sorted(stands_for)), new.named(place)


def _changed(old: OnnxFile, new: OnnxFile) -> list[tuple[str, str]]:
    changes: list[tuple[float, str, str]] = []
    for name, ours in old.constants.items():
        theirs = new.constants.get(name)
        if theirs is None or (theirs.dtype == ours.dtype and np.array_equal(ours, theirs)):
            continue
        if theirs.shape != ours.shape or ours.dtype.kind not in "fiu" or theirs.dtype.kind not in "fiu":
            changes.append((np.inf, name, f"{ours.dtype}{[*ours.shape]} -> {theirs.dtype}{[*theirs.shape]}"))
            continue
        wide = ours.astype(np.float64)
        off = np.abs(wide - theirs.astype(np.float64)).max(initial=0.0) / (np.abs(wide).max(initial=0.0) or 1.0)
        kinds = "" if theirs.dtype == ours.dtype else f"{ours.dtype} -> {theirs.dtype}, "
        changes.append((off, name, f"{kinds}{off:.2g} of its largest magnitude"))
    return [(name, text) for _, name, text in sorted(changes, key=lambda each: -each[0])]
