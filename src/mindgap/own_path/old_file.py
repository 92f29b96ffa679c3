"""Tells how an ONNX file differs from the program that it stands for: weights, constants, nodes.

The program is exported afresh, in the way and the operator set of the file.
"""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
import torch

from mindgap.graph import Array
from mindgap.graph_capture.origin import users_line_in
from mindgap.graph_capture.program import modules_of
from mindgap.own_path.program_run import FlatProgram
from mindgap.own_path.runs import FileChanges
from mindgap.own_path.value_parting import parting_node
from mindgap.run.message_cleaning import one_line

_LIBRARY: Final[Any] = onnx  # typed in parts
_EXPORTER: Final[Any] = torch.onnx
#: Nodes that an exporter writes or leaves out without a change of the program.
_NO_OPERATOR: Final = ("Constant", "Identity")
#: The least operator set of the exporter on `torch.export`.
_LEAST_SET: Final = 18
#: Where that exporter writes the lines of a node.
_TRACE: Final = "pkg.torch.onnx.stack_trace"
#: The first numbers of a constant that are shown.
_MOST: Final = 4


@dataclass(frozen=True, slots=True)
class _Side:
    """A model: its operators in order, and its constant tensors by name."""

    nodes: list[Any]
    tensors: dict[str, Array]

    @property
    def ops(self) -> list[str]:
        return [str(node.op_type) for node in self.nodes]


def file_changes(path: Path, program: FlatProgram) -> FileChanges:
    """Compares a file with its program. Without a fresh export only weights are compared."""
    model = _LIBRARY.load(str(path))
    file = _side(model)
    export, refusals = _fresh(model, program)
    state = {
        ".".join(filter(None, (prefix, name))): tensor.detach().cpu().numpy()
        for prefix, module in modules_of(program.program)
        for name, tensor in module.state_dict().items() if tensor.dtype != torch.bfloat16
    }  # fmt: skip
    fresh = None if export is None else _side(export)
    weights = state if fresh is None else _weights(fresh, state)
    pairs = _pairs(file.tensors, weights)
    off = {name: _off(file.tensors[own], weights[name]) for name, own in pairs.items()}
    changed = tuple((name, size) for name, size in off.items() if size > 0)
    if fresh is None:
        reason = f"torch.onnx.export refuses the program, so that weights alone were compared ({'; '.join(refusals)})"
        return FileChanges(changed, len(pairs), reason=reason)
    missing = tuple(name for name in weights if name not in pairs)
    counts = Counter(file.ops)
    counts.subtract(Counter(fresh.ops))
    constants: list[tuple[str, str, str]] = []
    starts: list[int] = []
    if file.ops == fresh.ops:
        for place, (old, new) in enumerate(zip(file.nodes, fresh.nodes, strict=True)):
            changes = _constants(old, new, file, fresh, {*pairs.values()})
            constants += changes
            starts += [place] if changes else []
    else:
        matched = SequenceMatcher(None, file.ops, fresh.ops, autojunk=False).get_opcodes()
        starts += [j for kind, _, _, j, _ in matched if kind != "equal"][:1]
    touched = {name for name, _ in changed}.union(missing)
    users = ({_plain_name(name, state) for name in node.input} for node in fresh.nodes)
    starts += [place for place, names in enumerate(users) if touched & names][:1]
    changes = FileChanges(
        changed, len(pairs), missing, tuple(constants), tuple((op, n) for op, n in counts.items() if n)
    )
    if not any((changed, missing, constants, changes.nodes)):
        return changes
    if (parting := parting_node(path, export, program)) is not None:
        return _starting(changes, *parting)
    return _starting(changes, fresh.nodes[min(starts)]) if starts and min(starts) < len(fresh.nodes) else changes


def _starting(found: FileChanges, first: Any, off: float = 0.0) -> FileChanges:
    """With the first node of the fresh export that differs, or at which values part by `off`."""
    traces = "".join(each.value for each in first.metadata_props if each.key == _TRACE)
    name = first.name.replace("/program/", "/")
    return replace(found, start=f"{first.op_type} {name}".strip(), line=users_line_in(traces), off=off)


def _side(model: Any) -> _Side:
    nodes: list[Any] = []
    tensors = {each.name: _LIBRARY.numpy_helper.to_array(each) for each in model.graph.initializer}
    for node in _all_nodes(model.graph):
        value = next((each.t for each in node.attribute if each.name == "value" and node.op_type == "Constant"), None)
        if value is not None:
            tensors[node.output[0]] = _LIBRARY.numpy_helper.to_array(value)
        elif node.op_type not in _NO_OPERATOR:
            nodes.append(node)
    return _Side(nodes, tensors)


def _all_nodes(graph: Any) -> list[Any]:
    """The nodes of a graph and of the graphs inside its nodes, in order."""
    nodes: list[Any] = []
    for node in graph.node:
        nodes.append(node)
        nodes += [inner for each in node.attribute if each.HasField("g") for inner in _all_nodes(each.g)]
    return nodes


def _fresh(model: Any, program: FlatProgram) -> tuple[Any, list[str]]:
    """The program as the exporter of the file writes it, or else the other exporter; None where neither does, and why
    not."""
    refusals: list[str] = []
    version = next((int(each.version) for each in model.opset_import if each.domain in ("", "ai.onnx")), _LEAST_SET)
    traced = any(node.metadata_props for node in model.graph.node)
    for dynamo in (traced, not traced):
        version_wanted = max(version, _LEAST_SET) if dynamo else version
        written = io.BytesIO()
        try:
            with torch.no_grad():
                _EXPORTER.export(
                    program, program.fresh(), written, dynamo=dynamo, opset_version=version_wanted, verbose=False
                )
            return _LIBRARY.load_from_string(written.getvalue()), []
        except Exception as error:  # of any type, by program
            refusals.append(one_line(error))
    return None, refusals


def _plain_name(name: str, state: Mapping[str, Array]) -> str:
    """A name of an export without the part that stands for mindgap's wrapper."""
    inner = next((name.removeprefix(each) for each in ("program.", "held.0.") if name.startswith(each)), name)
    return name if name in state else inner


def _weights(fresh: _Side, state: Mapping[str, Array]) -> dict[str, Array]:
    """The program's weights as its export has them: those with names of the program, and what they were folded into."""
    named = {_plain_name(name, state): array for name, array in fresh.tensors.items()}
    return {name: array for name, array in named.items() if name in state or array.size > _MOST**2}


def _pairs(stored: Mapping[str, Array], weights: Mapping[str, Array]) -> dict[str, str]:
    """The tensor of the file for each weight: by equal values, by name, by the nearest values of its shape."""
    pairs: dict[str, str] = {}
    for rule in ("same", "equal", "name", "nearest"):
        free = [own for own in stored if own not in pairs.values()]
        for name in [each for each in weights if each not in pairs]:
            fitting = [own for own in free if rule in ("equal", "nearest") or own == name]
            sizes = {own: _off(stored[own], weights[name]) for own in fitting}
            most = {"same": 0.0, "equal": 0.0, "name": math.inf}.get(rule, np.finfo(np.float64).max)
            best = min(sizes, key=lambda own: sizes[own], default=None)
            if best is not None and sizes[best] <= most:
                pairs[name] = best
                free.remove(best)
    return pairs


def _off(stored: Array, weight: Array) -> float:
    """The largest difference, also of the transpose; infinity for other shapes and for integers in place of floats."""
    alike = (stored.dtype.kind in "biu") == (weight.dtype.kind in "biu")
    forms = [each for each in (weight, weight.T) if alike and each.shape == stored.shape]
    pairs = [(stored.astype(np.complex128), each.astype(stored.dtype).astype(np.complex128)) for each in forms]
    return min((float(np.nan_to_num(np.abs(a - b), nan=0.0).max(initial=0.0)) for a, b in pairs), default=math.inf)


def _constants(old: Any, new: Any, file: _Side, fresh: _Side, weights: set[str]) -> list[tuple[str, str, str]]:
    """The attributes and constant operands of two nodes of an operator that both have and that differ."""
    ours, theirs = ({e.name: _value(e) for e in node.attribute if not e.HasField("g")} for node in (old, new))
    constants = [
        (f"{name} of {old.op_type}", ours[name], theirs[name])
        for name in ours if name in theirs and ours[name] != theirs[name]
    ]  # fmt: skip
    for own, other in zip(old.input, new.input, strict=False):
        a, b = file.tensors.get(own), fresh.tensors.get(other)
        if a is not None and b is not None and own not in weights and not np.array_equal(a, b):
            constants.append((f"an operand of {old.op_type}", _words(a), _words(b)))
    return constants


def _value(attribute: Any) -> str:
    if attribute.HasField("t"):
        return _words(_LIBRARY.numpy_helper.to_array(attribute.t))
    return _words(np.asarray(_LIBRARY.helper.get_attribute_value(attribute)))


def _words(array: Array) -> str:
    shown: Sequence[Any] = array.reshape(-1)[:_MOST].tolist()
    texts = [f"{each:.6g}" if isinstance(each, int | float) else str(each) for each in shown]
    return texts[0] if array.size == 1 else f"[{', '.join(texts)}{' …' * (array.size > _MOST)}]"
