"""Translates an ONNX model of plain nodes to a program; values known before it runs are computed once."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from mindgap.aten.tensors import to_numpy, to_torch
from mindgap.models.corpus.onnx_cases.node import TRANSLATIONS, OnnxNode, Untranslated
from mindgap.models.corpus.source import one_line

for _family in ("pointwise", "shapes", "reductions", "layers"):
    importlib.import_module(f"mindgap.models.corpus.onnx_cases.{_family}")  # each registers its translations

#: Operators whose results are facts about shapes.
_OF_SHAPES: Final = frozenset({"Shape", "Size"})


@dataclass(frozen=True)
class TranslatedNode:
    """One node. `operands`: names of values; "" for an operand that is left out or structural."""

    node: OnnxNode
    operands: tuple[str, ...]
    outputs: tuple[str, ...]

    def run(self, values: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Returns the node's outputs by name."""
        operands = [values[name] if name else None for name in self.operands]
        result = TRANSLATIONS[self.node.op].function(self.node, *operands)
        found: Sequence[torch.Tensor] = [result] if isinstance(result, torch.Tensor) else result
        return {name: tensor for name, tensor in zip(self.outputs, found, strict=False) if name}


@dataclass(frozen=True)
class OnnxCalls:
    """Runs `steps` on the tensors named `inputs` and on `constants`; returns the `outputs` by name."""

    inputs: tuple[str, ...]
    constants: dict[str, torch.Tensor]
    steps: tuple[TranslatedNode, ...]
    outputs: tuple[str, ...]

    @property
    def __signature__(self) -> inspect.Signature:
        kind = inspect.Parameter.POSITIONAL_ONLY
        names = [name if name.isidentifier() else f"input_{i}" for i, name in enumerate(self.inputs)]
        return inspect.Signature([inspect.Parameter(name, kind) for name in names])

    def __call__(self, *tensors: torch.Tensor) -> dict[str, torch.Tensor]:
        values = {**self.constants, **dict(zip(self.inputs, tensors, strict=True))}
        for step in self.steps:
            values.update(step.run(values))
        return {name: values[name] for name in self.outputs}


def translated(model: Any, given: Mapping[str, torch.Tensor]) -> OnnxCalls:
    """Returns the program of an ONNX model that was run with these inputs.

    Inputs that give shapes, axes and the like become constants. Raises `Untranslated` for an operator, an attribute or
    a type without an equivalent, and if nothing depends on an input any more.
    """
    nodes = list(model.graph.node)
    for node in nodes:
        if node.domain not in ("", "ai.onnx") or (
            node.op_type not in TRANSLATIONS and node.op_type not in _OF_SHAPES and node.op_type != "Constant"
        ):
            raise Untranslated(f"operator {node.domain + '.' if node.domain else ''}{node.op_type} has no translation")
    baked = _structural(nodes) & set(given)
    values: dict[str, torch.Tensor] = {**given, **_initial(model)}
    known = {*baked, *(set(values) - set(given))}
    steps: list[TranslatedNode] = []
    for node in nodes:
        operands = [name for name in node.input if name]
        if node.op_type in _OF_SHAPES or node.op_type == "Constant":
            values[node.output[0]] = _fact(node, values)
            known.add(node.output[0])
            continue
        step = _step(node, values, known)
        values.update(_ran(step, values))
        if all(name in known for name in operands):
            known.update(step.outputs)
        else:
            steps.append(step)
    outputs = tuple(value.name for value in model.graph.output)
    if all(name in known for name in outputs):
        raise Untranslated("nothing in it depends on a tensor: shapes and constants decide the result")
    used = {name for step in steps for name in step.operands} | set(outputs)
    return OnnxCalls(
        tuple(name for name in given if name not in baked),
        {name: values[name] for name in used & known},
        tuple(steps), outputs,
    )  # fmt: skip


def _structural(nodes: Sequence[Any]) -> set[str]:
    """Returns names of values that must be known before the model runs: structural operands and what they are
    computed from."""
    found: set[str] = set()
    for node in reversed(nodes):
        if node.op_type in _OF_SHAPES or node.op_type == "Constant":
            continue
        positions: Iterable[int] = TRANSLATIONS[node.op_type].structural
        if any(name in found for name in node.output):
            positions = range(len(node.input))
        found.update(node.input[i] for i in positions if i < len(node.input) and node.input[i])
    return found


def _initial(model: Any) -> dict[str, torch.Tensor]:
    from onnx import numpy_helper

    return {one.name: tensor_of(numpy_helper.to_array(one)) for one in model.graph.initializer}


def tensor_of(array: Any) -> torch.Tensor:
    """Returns a new tensor with the array's values. Raises `Untranslated` for a type that graphs do not hold."""
    try:
        return to_torch(np.asarray(array)).clone()
    except (KeyError, TypeError, ValueError) as error:
        kind = getattr(array, "dtype", type(array).__name__)
        raise Untranslated(f"a value of type {kind}, which graphs do not hold") from error


def _fact(node: Any, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
    attributes = _attributes(node)
    if node.op_type == "Constant":
        (value,) = attributes.values()
        return value if isinstance(value, torch.Tensor) else torch.tensor(value)
    shape = tuple(values[node.input[0]].shape)
    if node.op_type == "Size":
        return torch.tensor(int(np.prod(shape, dtype=np.int64)))
    return torch.tensor(shape[slice(attributes.get("start", 0), attributes.get("end"))], dtype=torch.int64)


def _attributes(node: Any) -> dict[str, Any]:
    import onnx

    found: dict[str, Any] = {}
    for one in node.attribute:
        value: Any = onnx.helper.get_attribute_value(one)
        if one.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
            raise Untranslated(f"{node.op_type} holds a graph of its own")
        found[one.name] = tensor_of(onnx.numpy_helper.to_array(value)) if isinstance(value, onnx.TensorProto) else value
    return found


def _step(node: Any, values: Mapping[str, torch.Tensor], known: set[str]) -> TranslatedNode:
    structural: dict[int, Any] = {}
    operands: list[str] = []
    for position, name in enumerate(node.input):
        if not name or position not in TRANSLATIONS[node.op_type].structural:
            operands.append(name)
            continue
        if name not in known:
            raise Untranslated(f"operand {position} of {node.op_type} is computed from the inputs")
        structural[position] = to_numpy(values[name])
        operands.append("")
    wanted = tuple(bool(name) for name in node.output)
    return TranslatedNode(
        OnnxNode(node.op_type, _attributes(node), structural, wanted), tuple(operands), tuple(node.output)
    )


def _ran(step: TranslatedNode, values: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    try:
        found = step.run(values)
    except Untranslated:
        raise
    except Exception as error:
        raise Untranslated(f"PyTorch has no {step.node.op} like this: {one_line(error)}") from error
    if len(found) < sum(step.node.wanted):
        raise Untranslated(f"{step.node.op} gives {len(found)} of the {sum(step.node.wanted)} outputs asked for")
    return found
