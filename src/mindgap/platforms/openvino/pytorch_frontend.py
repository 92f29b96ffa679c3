"""Converts a graph with OpenVINO's PyTorch front end: `openvino.convert_model` on a `torch.export` program.

OpenVINO documents this way for PyTorch's users. The graph is not rewritten: OpenVINO runs the decompositions of its
`convert_model`, and makes every dimension dynamic, as it does for its users.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from mindgap.aten.functional import functionalize
from mindgap.aten.tape import written_inputs
from mindgap.graph import Graph, GraphError, Labels
from mindgap.platforms.messages import Reading
from mindgap.platforms.openvino import messages as openvino_messages
from mindgap.platforms.protocol import Array, CompileFailure, Options, Unsupported
from mindgap.platforms.pytorch.compilation.exported_program import ExportedGraph, export_program, quiet


@dataclass(frozen=True)
class OpenVinoModel:
    """A converted graph. `model`: an `openvino.Model`. `inputs`: their names, `fed` the graph input behind each.

    `outputs`: for each output of the graph, the number of the model's output that holds it.
    `facts`: what the conversion did that can change the graph's meaning. JSON only.
    `typed`: converts an error of the plugin, or of a run (`running`), to a refusal or failure.
    """

    model: Any
    inputs: tuple[str, ...]
    fed: tuple[int, ...]
    outputs: tuple[int, ...]
    facts: Mapping[str, Any]
    typed: Callable[..., Exception]


def import_openvino(_: Options | None = None) -> Any:
    """Imports OpenVINO without its telemetry, which reports each conversion over the network from a forked process.

    It takes any options: as `ScriptRunner.prepare` it prepares a process for programs. A process that has imported
    OpenVINO already keeps what it has.
    """
    if "openvino" not in sys.modules:
        sys.modules.setdefault("openvino_telemetry", None)  # pyright: ignore[reportArgumentType] # None forbids the import
    import openvino

    return openvino


def convert(graph: Graph, inputs: Sequence[Array]) -> OpenVinoModel:
    """Exports the graph and converts it. Raises `Unsupported` or `CompileFailure`."""
    kept, outputs = _returned(graph)
    try:
        model, program = _converted(kept, inputs)
    except CompileFailure:
        _require_users_program(graph, inputs)
        raise
    names = tuple(f"input_{number}" for number in program.fed)
    facts = {"frontend": "pytorch", "shapes": "dynamic"}
    return OpenVinoModel(model, names, program.fed, outputs, facts, partial(_typed, program))


def _converted(graph: Graph, inputs: Sequence[Array]) -> tuple[Any, ExportedGraph]:
    import torch

    program = export_program(graph, inputs)
    try:
        with torch.no_grad(), quiet():
            return import_openvino().convert_model(program.exported), program
    except Exception as error:
        raise _typed(program, error) from error


def _require_users_program(graph: Graph, inputs: Sequence[Array]) -> None:
    """Raises `Unsupported` if the graph converts without the contents of the inputs that it writes to.

    OpenVINO drops what a program writes to its inputs and buffers (running statistics). Only mindgap asks for it, so
    that a conversion which fails with it and succeeds without is no failure that a user meets.
    """
    written = set(written_inputs(graph))
    outputs = tuple(number for number in graph.outputs if number not in written)
    if outputs and outputs != graph.outputs:
        _converted(replace(graph, outputs=outputs, labels=Labels()), inputs)
        raise Unsupported("model", "OpenVINO does not return what a program writes to its inputs and buffers")


def _returned(graph: Graph) -> tuple[Graph, tuple[int, ...]]:
    """Removes outputs that only mindgap asks for. Also returns, for each output, the number of the one that holds it.

    A user's program does not return an input that it writes to. mindgap compares that input's contents; where another
    output holds the same value, that one is read twice, since the front end fails for a value returned twice.
    """
    written = set(written_inputs(graph))
    if not any(number in written for number in graph.outputs):
        return graph, tuple(range(len(graph.outputs)))
    try:
        pure = functionalize(graph).graph.outputs
    except GraphError as error:
        raise CompileFailure(f"the graph has no functional form: {error}") from None
    kept: list[int] = []
    place: dict[int, int] = {}
    for position in sorted(range(len(pure)), key=lambda p: graph.outputs[p] in written):
        if graph.outputs[position] not in written or pure[position] not in place:
            place.setdefault(pure[position], len(kept))
            place[-1 - position] = len(kept)
            kept.append(graph.outputs[position])
    results = tuple(place.get(-1 - position, place[value]) for position, value in enumerate(pure))
    return replace(graph, outputs=tuple(kept), labels=Labels()), results


class FrontEndProgram:
    """An executable: a `torch.export` program after the front end's decompositions, in eager PyTorch."""

    def __init__(self, module: Any, graph: Graph, fed: Sequence[int], outputs: Sequence[int]) -> None:
        self._module, self._specs, self._fed, self._outputs = module, graph.inputs, fed, outputs

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        import torch

        from mindgap.aten.tensors import to_numpy, to_torch

        with torch.no_grad():
            results = self._module(*(to_torch(inputs[number], self._specs[number].spec) for number in self._fed))
        return [to_numpy(results[place]) for place in self._outputs]


def decomposed(graph: Graph, inputs: Sequence[Array]) -> FrontEndProgram:
    """Exports the graph and decomposes it as `convert_model` does. Raises `Unsupported` or `CompileFailure`."""
    kept, outputs = _returned(graph)
    program = export_program(kept, inputs)
    with contextlib.suppress(CompileFailure, Unsupported):  # its table of decompositions is made in a conversion
        _converted(kept, inputs)
    return FrontEndProgram(_decompose(program).module(), kept, program.fed, outputs)


def _typed(program: ExportedGraph, error: Exception, *, running: bool = False) -> Exception:
    """Converts an error of the front end, the plugin, or a run to a refusal or failure."""
    reading = openvino_messages.read(str(error), type(error).__name__)
    return openvino_messages.stopped(error, reading, _operator(reading, program), running=running)


def _operator(found: Reading, program: ExportedGraph) -> str:
    """Returns the called ATen operator for the decomposed operator (or node) in a message.

    A node of the model is called `convolution/aten.convolution.default/Convolution`: the node of the program, its
    operator, OpenVINO's own.
    """
    operator, (name, *below) = found.operator, found.node.split("/")
    called = {node.name: str(node.target) for node in program.exported.graph.nodes if node.op == "call_function"}
    for op in (operator, *below[:1]):
        if op in called.values():
            return op
    if not operator and not name:
        return ""
    for node in _decompose(program).graph.nodes:
        if (name and node.name == name) or str(node.target) == operator:
            for source in node.meta.get("from_node", ()):
                if source.name in called:
                    return called[source.name]
    return operator if not operator or operator.startswith("aten.") else f"openvino.{operator}"


def _decompose(program: ExportedGraph) -> Any:
    """Returns the program after the front end's decompositions. Raises `CompileFailure`."""
    try:
        with quiet():
            exported: Any = program.exported  # its decompositions are typed in parts
            return exported.run_decompositions(_table())
    except Exception as error:
        raise CompileFailure(f"decomposing the program failed: {type(error).__name__}: {error}") from error


def _table() -> Any:
    """Returns the decompositions of `convert_model`; a converted program has made the table."""
    from openvino.frontend.pytorch.fx_decoder import (  # pyright: ignore[reportMissingImports] # untyped
        TorchFXPythonDecoder,
    )

    decoder: Any = TorchFXPythonDecoder
    return decoder._decomp_table
