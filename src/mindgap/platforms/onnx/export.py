"""Exports a graph to the ONNX model that `torch.onnx.export(dynamo=True)` would write, without tracing it again.

Same operator translations, same decompositions, same explicit casts and same optimiser as the
exporter that users call; only the tracing in front of them is left out (see `fx_program`).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import onnx_ir as ir
import torch
from onnxscript import optimizer, version_converter

from mindgap.aten.functional import functionalize
from mindgap.aten.tensors import to_torch
from mindgap.aten.torch_private.onnx_exporter import ConversionError, TorchTensor, add_opset_imports, translate
from mindgap.graph import Graph, GraphError
from mindgap.platforms.onnx import messages as onnx_export_messages
from mindgap.platforms.onnx.external_data import ExternalData, take_out
from mindgap.platforms.onnx.fx_program import OPSET, FxProgram, registry, to_fx
from mindgap.platforms.protocol import Array, CompileFailure, Unsupported

#: A protobuf message ends at 2 GiB; names, nodes and shapes need some of it.
_MODEL_BYTES_LIMIT: Final = 2_000_000_000
#: The roles of inputs that are not part of the model.
FED: Final = ("input", "random")


@dataclass(frozen=True)
class Exported:
    """An exported graph. `model`: a serialised ONNX `ModelProto`.

    `external`: the weights that `model` declares as external data.
    `fed`: number of the graph input behind each ONNX input, in their order; the rest are initializers.
    `outputs`: an ONNX output name per graph output, in order, no two alike.
    `origin`: ONNX node name -> the ATen operator it came from, where the optimiser left that known.
    `facts`: what the translation did to the graph that can change its meaning. JSON only.
    """

    model: bytes
    inputs: tuple[str, ...]
    fed: tuple[int, ...]
    outputs: tuple[str, ...]
    origin: Mapping[str, str]
    facts: Mapping[str, Any]
    external: ExternalData = field(default_factory=ExternalData)


def weight_bytes(graph: Graph) -> int:
    """Returns the bytes of the inputs that become initializers."""
    return sum(i.spec.nbytes for i in graph.inputs if i.role not in FED)


def export(
    graph: Graph, inputs: Sequence[Array], optimize: bool = True, apart: bool = False, opset: int = OPSET,
    labels: Sequence[str] = (),
) -> Exported:  # fmt: skip
    """Translates a graph in functional form; `inputs` gives the values of the inputs that become initializers.

    `optimize` runs onnxscript's optimiser, which is on for everybody who calls `torch.onnx.export`: it
    folds constants, folds batch-norm and padding into convolutions, and removes what is not used.
    `apart`: keep large weights outside the model. `opset`: the exporter's `opset_version`. `labels`: of nodes, for
    `origin`, which has their operators by default.

    Raises `Unsupported` where an operator or dtype has no translation or the weights are too big for
    one ONNX file, `CompileFailure` for every other failure.
    """
    if not apart:
        _require_one_file(weight_bytes(graph))
    try:
        pure = functionalize(graph)
    except GraphError as error:
        # What has no functional form was not given to the platform, and is no fault of it.
        raise Unsupported("model", str(error)) from None
    program = to_fx(pure.graph, [labels[i] if labels else graph.nodes[i].op for i in pure.origin], opset)
    model, values = _translate(program)
    fed = _bind_inputs(graph, inputs, model, program, values)
    _bind_outputs(pure.graph, model, program, values)
    add_opset_imports(model)
    before = Counter(node.op_type for node in model.graph)
    _finish(model, optimize, opset)
    names = tuple(str(value.name) for value in model.graph.outputs)
    facts: dict[str, Any] = {
        "exporter": f"torch {torch.__version__}, optimizer {'on' if optimize else 'off'}",
        "decomposed": {op: list(parts) for op, parts in sorted(program.decomposed.items())},
        "promoted": sorted(program.promoted),
        "folded": _fewer(before, Counter(node.op_type for node in model.graph)),
    }
    given = tuple(str(value.name) for value in model.graph.inputs)
    origin = _origins(model, program)
    written, external = serialized(model, apart)
    if external.unmapped:
        facts["weights"] = f"in memory: {external.unmapped}"
    return Exported(written, given, fed, names, origin, facts, external)


def _translate(program: FxProgram) -> tuple[ir.Model, Mapping[str, Any]]:
    model = ir.Model(
        ir.Graph([], [], nodes=[], name="main_graph"), ir_version=10, producer_name="pytorch", producer_version=""
    )
    try:
        values = _onnx_values(program, model)
    except ConversionError as error:
        raise _typed(error, program) from error
    return model, values


def _onnx_values(program: FxProgram, model: ir.Model) -> Mapping[str, Any]:
    with _quiet(), torch.no_grad():
        return translate(program.graph, model, registry(program.opset))


class _quiet:
    """Silences the exporter's log, which mindgap reports as data."""

    def __enter__(self) -> None:
        self._loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
        self._levels = [logger.level for logger in self._loggers]
        for logger in self._loggers:
            logger.setLevel(logging.ERROR)

    def __exit__(self, *_: object) -> None:
        for logger, level in zip(self._loggers, self._levels, strict=True):
            logger.setLevel(level)


def _typed(error: BaseException, program: FxProgram) -> Exception:
    """Returns a refusal for a missing or incomplete translation, else a failure."""
    op = next((op for name, op in program.origin.items() if f"%{name} " in str(error)), "")
    reading, cause = onnx_export_messages.read(error)
    if reading.kind == "failure":
        return CompileFailure(f"{op}: translating it to ONNX failed: {type(cause).__name__}: {cause}", op)
    return Unsupported(op, onnx_export_messages.why(reading, cause))


def _bind_inputs(
    graph: Graph, inputs: Sequence[Array], model: ir.Model, program: FxProgram, values: Mapping[str, Any]
) -> tuple[int, ...]:
    """Keeps fed inputs as the model's inputs, and makes the others initializers."""
    model.graph.inputs.clear()
    fed: list[int] = []
    for number, item in enumerate(graph.inputs):
        value = values[_fx(program, number).name]
        if item.role in FED:
            model.graph.inputs.append(value)
            fed.append(number)
            continue
        tensor = to_torch(inputs[number])
        value.const_value = TorchTensor(torch.view_as_real(tensor) if tensor.is_complex() else tensor, value.name)
        model.graph.initializers[value.name] = value
    return tuple(fed)


def _bind_outputs(graph: Graph, model: ir.Model, program: FxProgram, values: Mapping[str, Any]) -> None:
    """Makes one ONNX output per graph output; an input or a repeated value goes through Identity."""
    model.graph.outputs.clear()
    taken: set[int] = set()
    for position, number in enumerate(graph.outputs):
        value = values[_fx(program, number).name]
        if number < len(graph.inputs) or id(value) in taken or not isinstance(value.producer(), ir.Node):
            copy = ir.Value(name=f"out{position}", shape=value.shape, type=value.type)
            model.graph.append(ir.Node("", "Identity", [value], outputs=[copy], name=f"node_out{position}"))
            value = copy
        taken.add(id(value))
        model.graph.outputs.append(value)


def _fx(program: FxProgram, number: int) -> torch.fx.Node:
    node = program.values[number]
    if node is None:
        raise CompileFailure(f"value {number} of the graph holds no tensor")
    return node


def _finish(model: ir.Model, optimize: bool, opset: int) -> None:
    """Converts the model to `opset`, which some translations use already, and optimises it, in the exporter's order."""
    converter: Any = version_converter
    try:
        with _quiet():
            converter.convert_version(model, opset, fallback=True)
            if optimize:
                optimizer.optimize_ir(model)
    except Exception as error:
        raise CompileFailure(f"finishing the ONNX model failed: {type(error).__name__}: {error}") from error


def _origins(model: ir.Model, program: FxProgram) -> dict[str, str]:
    """Names every node and finds its operator; a node made by the optimiser belongs to its reader's operator."""
    known: dict[str, str] = {}
    for number, node in enumerate(model.graph):
        node.name = node.name or f"unnamed_{number}"
    for node in reversed(model.graph):
        meta: Any = node.meta
        source = meta.get("node")
        if source is not None and source.name in program.origin:
            known[str(node.name)] = program.origin[source.name]
            continue
        readers = [str(use.node.name) for value in node.outputs for use in value.uses()]
        origin = next((program.origin[v.name] for v in node.outputs if v.name in program.origin), None)
        origin = origin or next((known[name] for name in readers if name in known), None)
        if origin is not None:
            known[str(node.name)] = origin
    return known


def _fewer(before: Counter[str], after: Counter[str]) -> dict[str, int]:
    """Counts the ONNX operators that the optimiser removed or folded."""
    return {name: before[name] - after[name] for name in sorted(before) if before[name] > after[name]}


def serialized(model: ir.Model, apart: bool) -> tuple[bytes, ExternalData]:
    """Returns the bytes of the model, and the weights that they declare as external data.

    `apart`: take large weights out of the model. A protobuf message holds no more than 2 GiB, and writing and reading
    one copies the weights. Raises `Unsupported` where they do not fit, `CompileFailure` where writing fails.
    """
    external = take_out(model) if apart else ExternalData()
    held = [value.const_value for name, value in model.graph.initializers.items() if name not in external.arrays]
    _require_one_file(sum(tensor.nbytes for tensor in held if tensor is not None))
    try:
        return ir.to_proto(model).SerializeToString(), external
    except Exception as error:
        raise CompileFailure(f"writing the ONNX model failed: {type(error).__name__}: {error}") from error


def _require_one_file(held: int) -> None:
    if held > _MODEL_BYTES_LIMIT:
        raise Unsupported("model", f"{held / 1e9:.1f} GB of weights do not fit an ONNX file (2 GB)")
