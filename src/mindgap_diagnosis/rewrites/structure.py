"""Describes what a rewrite did to the nodes and the constants of an ONNX file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from mindgap.graph import Array, MindgapError
from mindgap.onnx_files.model_proto import node_name, op_of, used_names

_LIBRARY: Final[Any] = onnx  # typed in parts
#: An element type, and a shape with 0 for what has no number; None for no shape.
ValueType = tuple[str, tuple[int, ...] | None]


@dataclass(frozen=True)
class OnnxFile:
    """A file's nodes in order, and its constants by name."""

    path: Path
    nodes: tuple[Any, ...]
    constants: Mapping[str, Array]
    inputs: Mapping[str, ValueType]
    outputs: Mapping[str, ValueType]

    def named(self, place: int) -> str:
        """`conv1 (Conv)`; the operator alone for a node without a name."""
        node = self.nodes[place]
        return f"{node.name} ({op_of(node)})" if node.name else f"{node_name(node, place)} ({op_of(node)})"

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
        value = next((each.t for each in node.attribute if each.name == "value" and node.op_type == "Constant"), None)
        if value is None:
            nodes.append(node)
        else:
            constants[node.output[0]] = _LIBRARY.numpy_helper.to_array(value)
    inputs, outputs = (
        {each.name: _type(each) for each in values if each.name not in constants}
        for values in (model.graph.input, model.graph.output)
    )
    return OnnxFile(path, tuple(nodes), constants, inputs, outputs)


def _type(value: Any) -> ValueType:
    tensor = value.type.tensor_type
    kind = str(_LIBRARY.TensorProto.DataType.Name(tensor.elem_type)).lower()
    return kind, tuple(each.dim_value for each in tensor.shape.dim) if tensor.HasField("shape") else None


def check_one_model(old: OnnxFile, new: OnnxFile) -> None:
    """Raises `MindgapError` where the files take other inputs or give other outputs: they are of two models.

    Outputs are matched by their order. A dimension without a number may be any.
    """
    inputs = [(old.inputs[name], new.inputs[name]) for name in old.inputs if name in new.inputs]
    outputs = [*zip(old.outputs.values(), new.outputs.values(), strict=False)]
    same = len(inputs) == len(old.inputs) == len(new.inputs) and len(old.outputs) == len(new.outputs)
    if not same or not all(_fit(*each) for each in (*inputs, *outputs)):
        texts = [f"{each.path} has {_words(each.inputs)} -> {_words(each.outputs)}" for each in (new, old)]
        raise MindgapError(f"not two files of one model, with its inputs and outputs: {'; '.join(texts)}")


def _fit(one: ValueType, other: ValueType) -> bool:
    if one[0] != other[0] or one[1] is None or other[1] is None:
        return one[0] == other[0]
    return len(one[1]) == len(other[1]) and all(a == b or not a * b for a, b in zip(one[1], other[1], strict=True))


def _words(values: Mapping[str, ValueType]) -> str:
    shapes = {name: "" if shape is None else [each or "any" for each in shape] for name, (_, shape) in values.items()}
    return ", ".join(f"{name} {kind}{shapes[name]}".replace("'", "") for name, (kind, _) in values.items())


def structural_changes(old: OnnxFile, new: OnnxFile) -> StructuralChanges:
    """Compares two files of one model by the names of their values."""
    ops = [Counter(op_of(node) for node in each.nodes) for each in (old, new)]
    folded = _folded(old, new)
    replaced = _replaced(old, new, {*folded})
    return StructuralChanges(
        (len(old.nodes), len(new.nodes)),
        tuple((ops[0] - ops[1]).most_common()), tuple((ops[1] - ops[0]).most_common()),
        replaced, tuple(old.named(place) for place in folded), _changed(old, new),
        (len(old.constants), len(new.constants)), _attributes(old, new),
    )  # fmt: skip


def _attributes(old: OnnxFile, new: OnnxFile) -> tuple[tuple[str, str, str], ...]:
    makers, found = new.makers, list[tuple[str, str, str]]()
    for place, node in enumerate(old.nodes):
        other = new.nodes[makers[node.output[0]]] if node.output[0] in makers else None
        if other is None or op_of(other) != op_of(node):
            continue
        ours, theirs = (
            {**_defaults(node), **{e.name: _value(e) for e in each.attribute if not e.HasField("g")}}
            for each in (node, other)
        )
        found += [
            (f"{name} of {old.named(place)}", ours.get(name, "left out"), theirs.get(name, "left out"))
            for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)
        ]  # fmt: skip
    return tuple(found)


def _defaults(node: Any) -> dict[str, str]:
    """What an attribute stands for where it is left out: a saved file may spell it out."""
    if not _LIBRARY.defs.has(node.op_type, node.domain):
        return {}
    attributes = _LIBRARY.defs.get_schema(node.op_type, node.domain).attributes
    return {name: _value(each.default_value) for name, each in attributes.items() if each.default_value.type}


def _value(attribute: Any) -> str:
    value = _LIBRARY.helper.get_attribute_value(attribute)
    return f"{value:.6g}" if isinstance(value, float) else f"{' '.join(str(value).split()):.40}"


def _folded(old: OnnxFile, new: OnnxFile) -> list[int]:
    """The nodes of the old file that no input reaches and that the new file has as constants, or not at all."""
    constant, places = {*old.constants}, list[int]()
    makers = new.makers
    for place, node in enumerate(old.nodes):
        if all(name in constant for name in used_names(node) if name):
            constant.update(node.output)
            places += [place] if not any(name in makers for name in node.output) else []
    return places


def _replaced(old: OnnxFile, new: OnnxFile, folded: set[int]) -> tuple[tuple[tuple[str, ...], str], ...]:
    """For each node of the new file that makes a value of the old one: the old nodes that it stands for, if those are
    several or of another operator."""
    made, makers = new.makers, old.makers
    known = {*made, *new.inputs}
    found: list[tuple[tuple[str, ...], str]] = []
    for place, node in enumerate(new.nodes):
        start = next((name for name in node.output if name in makers), None)
        if start is None:
            continue
        stands_for, wanted = set[int](), [start]
        while wanted:
            maker = makers.get(wanted.pop())
            if maker is None or maker in folded or maker in stands_for:
                continue
            stands_for.add(maker)
            wanted += [name for name in used_names(old.nodes[maker]) if name not in known]
        if len(stands_for) > 1 or {op_of(old.nodes[each]) for each in stands_for} != {op_of(node)}:
            found.append((tuple(old.named(each) for each in sorted(stands_for)), new.named(place)))
    return tuple(found)


def _changed(old: OnnxFile, new: OnnxFile) -> tuple[tuple[str, str], ...]:
    changes: list[tuple[float, str, str]] = []
    for name, ours in old.constants.items():
        theirs = new.constants.get(name)
        if theirs is None or (theirs.dtype == ours.dtype and np.array_equal(ours, theirs)):
            continue
        if theirs.shape != ours.shape or ours.dtype.kind not in "fiu" or theirs.dtype.kind not in "fiu":
            changes.append((np.inf, name, f"{ours.dtype}{[*ours.shape]} -> {theirs.dtype}{[*theirs.shape]}"))
            continue
        off = float(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)).max(initial=0.0))
        largest = float(np.abs(ours.astype(np.float64)).max(initial=0.0)) or 1.0
        kinds = "" if theirs.dtype == ours.dtype else f"{ours.dtype} -> {theirs.dtype}, "
        changes.append((off / largest, name, f"{kinds}{off / largest:.2g} of its largest magnitude"))
    return tuple((name, text) for _, name, text in sorted(changes, key=lambda each: -each[0]))
