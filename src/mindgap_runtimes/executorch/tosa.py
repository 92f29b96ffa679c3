"""Backend `executorch/tosa`: lowers a graph to TOSA with ExecuTorch's Arm backend, and runs it in Arm's model.

TOSA is the operator set that Arm's NPUs take. Arm's reference model interprets it on the host's processors: no NPU and
no compiler of one (Vela, of Ethos-U) takes part. A graph of which the backend leaves an operator is refused.
"""

from __future__ import annotations

import importlib
import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mindgap.graph import Graph
from mindgap.platforms import host
from mindgap.platforms.delegation import Delegation, computed_before
from mindgap.platforms.host_runtime import HostRuntime, Option
from mindgap.platforms.protocol import (
    EXECUTION,
    INFERENCE_ONLY,
    Array,
    CompileFailure,
    Executable,
    Options,
    RunFailure,
    Unsupported,
)
from mindgap.platforms.script_runner import ScriptRunner, read_runner
from mindgap_runtimes.executorch.stages import tosa_stage

if TYPE_CHECKING:
    import torch

MODULES: Final = {"torch": "torch", "executorch": "executorch", "tosa_reference_model": "tosa-tools"}
#: The version and the profile of TOSA, by the option `profile`.
SPECIFICATION: Final = {"fp": "TOSA-1.0+FP", "int": "TOSA-1.0+INT"}
_PROFILE: Final = Option(
    "profile",
    "TOSA's profile: fp (default), or int, for programs that PyTorch's pt2e flow quantised (TOSAQuantizer)",
    ("fp", "int"),
)
#: How `tosa_run.run_integers` reports that it does not take a program.
_REFUSAL: Final = "ExecuTorch's Arm backend leaves"
_SIMULATED: Final = "simulated"
_TOSA: Final = "TOSA"
_PACKAGES: Final = ("executorch", "tosa-tools")


class TosaPlatform:
    """Lowers graphs to TOSA."""

    def __init__(self, options: Options) -> None:
        self._profile = options.get("profile", "fp")
        self._model: Any = importlib.import_module("tosa_reference_model")

    def describe(self) -> Mapping[str, Any]:
        return {
            **host.described(MODULES),
            EXECUTION: _SIMULATED,
            "device": "TOSA, Arm's reference model on the host's processors",
            "specification": SPECIFICATION[self._profile],
            INFERENCE_ONLY: True,
            "exporter": "torch.export, to_edge_transform_and_lower",
        }

    def load(self, graph: Graph, inputs: Sequence[Array]) -> Executable:
        """Lowers the graph. Raises `Unsupported` for what is not TOSA's, else `CompileFailure`."""
        from mindgap_runtimes.executorch.lowering import edge_calls, lower_to_edge, with_layouts_taken

        if graph.grad:
            raise Unsupported("backward", "TOSA is for inference")
        if self._profile == "int":
            # A captured graph spells quantisation out in floats; the program itself goes by `tosa_run.run_integers`.
            raise Unsupported("model", "TOSA's INT profile takes programs of PyTorch's pt2e flow, not captured graphs")
        graph = with_layouts_taken(graph)
        edge, program = lower_to_edge(graph, inputs, _partitioners())
        module = edge.exported_program().graph_module
        left = [str(node.target) for node in module.graph.nodes if _is_left(node)]
        if left:
            names = [*edge_calls(module)] or left
            why = f"ExecuTorch's Arm backend leaves {', '.join(names)}"
            raise Unsupported(names[0], why, names[1:], "ran_elsewhere")
        return TosaExecutable(self._model, module, graph, program.fed)


def _partitioners() -> list[Any]:
    tosa: Any = importlib.import_module("executorch.backends.arm.tosa")
    specification = tosa.TosaSpecification.create_from_string(SPECIFICATION["fp"])
    spec: Any = importlib.import_module("executorch.backends.arm.tosa.compile_spec").TosaCompileSpec(specification)
    return [importlib.import_module("executorch.backends.arm.tosa.partitioner").TOSAPartitioner(spec)]


def _is_left(node: torch.fx.Node) -> bool:
    import torch

    parts = (torch.ops.higher_order.executorch_call_delegate, operator.getitem)
    return node.op == "call_function" and node.target not in parts


class TosaExecutable:
    """Runs the parts of one graph. `facts`: the operators that are in TOSA, all of the graph's.

    `module`: calls of parts, whose inputs are the graph's or results of other parts.
    """

    def __init__(self, model: Any, module: torch.fx.GraphModule, graph: Graph, fed: Sequence[int]) -> None:
        """Raises `Unsupported` for a graph without a part: nothing of it is TOSA's."""
        from mindgap_runtimes.executorch.lowering import edge_calls

        self._model, self._module, self._graph, self._fed = model, module, graph, fed
        self._parts = {node: self._part(node) for node in module.graph.nodes if node.op == "get_attr"}
        taken = Counter[str]()
        for part in self._parts.values():
            taken += edge_calls(part.original_module.graph_module)
        if not taken:
            raise computed_before("ExecuTorch", _TOSA)
        self.facts = Delegation(_TOSA, dict(taken), parts=len(self._parts)).as_fact()

    def _part(self, node: torch.fx.Node) -> Any:
        part_found: Any = getattr(self._module, str(node.target))
        if part_found.backend_id != "TOSABackend":
            raise CompileFailure(f"a part was lowered for {part_found.backend_id}, not for TOSABackend")
        return part_found

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the parts in order. Raises `RunFailure` where the reference model does not call the result valid."""
        values: dict[Any, Any] = {}
        remaining = iter(self._fed)
        for node in self._module.graph.nodes:
            if node.op == "placeholder":
                values[node] = self._operand(inputs, next(remaining))
            elif node.op == "output":
                return [np.array(values[each], order="C") for each in node.args[0]]
            elif node in self._parts:
                values[node] = self._parts[node]
            elif node.target is operator.getitem:
                values[node] = values[node.args[0]][node.args[1]]
            else:
                values[node] = self._run(node, *(values[each] for each in node.args))
        raise RunFailure("the lowered program has no output")

    def _operand(self, inputs: Sequence[Array], number: int) -> Array:
        from mindgap.aten.tensors import input_tensors, to_numpy

        return np.ascontiguousarray(to_numpy(input_tensors(self._graph, inputs)[number]))

    def _run(self, call: Any, part: Any, *operands: Array) -> list[Array]:
        held = [as_held(each, node.meta["val"]) for each, node in zip(operands, call.args[1:], strict=True)]
        given = _read(part, held)
        try:
            results, status = self._model.run(part.processed_bytes, given)
        except Exception as error:
            raise RunFailure(f"TOSA's reference model: {type(error).__name__}: {error}") from error
        if status != self._model.GraphStatus.TOSA_VALID:
            raise RunFailure(f"TOSA's reference model ends with {status.name}, not with TOSA_VALID")
        return [as_declared(each, tensor) for each, tensor in zip(results, call.meta["val"], strict=True)]


def as_held(array: Array, tensor: Any) -> Array:
    """Returns an operand of a part as the part reads it: its memory, in the program's order of dimensions.

    A tensor in the channels-last format is an array of (N, H, W, C). `tensor`: the program's, without data.
    """
    # An array without dimensions is one of one dimension by now.
    return np.ascontiguousarray(np.transpose(array.reshape(tensor.shape), tensor.dim_order()))


def as_declared(array: Array, tensor: Any) -> Array:
    """Returns a result of a part in the shape that the program declares, as ExecuTorch reads the memory of the part.

    TOSA's array has one dimension where the program's has none. One that differs in more than dimensions of size 1
    stays as it is.
    """
    order: tuple[int, ...] = tensor.dim_order()
    held = [int(tensor.shape[each]) for each in order]
    if [size for size in array.shape if size != 1] != [size for size in held if size != 1]:
        return array
    return np.transpose(array.reshape(held), np.argsort(order))


def _read(part: Any, operands: Sequence[Array]) -> list[Array]:
    """Returns the operands of a part that its TOSA graph has as inputs: not those of which only the shape is used, as
    in `zeros_like`. The reference model takes no others."""
    graph: Any = importlib.import_module("tosa.TosaGraph").TosaGraph
    block = graph.GetRootAs(part.processed_bytes, 0).Regions(0).Blocks(0)
    if block.InputsLength() == len(operands):
        return [*operands]
    given = dict(zip(part.original_module.graph_signature.user_inputs, operands, strict=True))
    return [given[block.Inputs(number).decode()] for number in range(block.InputsLength())]


def _script(options: Options) -> ScriptRunner:
    function = "run_integers" if options.get("profile") == "int" else "run"
    return replace(read_runner(Path(__file__).with_name("tosa_run.py"), _PACKAGES, function), refusal=_REFUSAL)


BACKEND: Final = HostRuntime(
    MODULES,
    TosaPlatform,
    (_PROFILE,),
    script=_script,
    stage_at_fault=tosa_stage,
    packages=_PACKAGES,
    recipe=Path(__file__).with_name("tosa.toml"),
    execution=_SIMULATED,
)
