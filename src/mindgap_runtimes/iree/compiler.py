"""Compiles a graph to a module of IREE's virtual machine, as iree-turbine's users do.

A user calls `aot.export(module, args=…).compile(save_to=None)`: `torch.export`, iree-turbine's decompositions, its
importer to torch-mlir, and IREE's compiler in the process. The same is called here in these steps. A compiler that
aborts ends the worker.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mindgap.graph import Graph
from mindgap.platforms.messages import loading_error
from mindgap.platforms.protocol import Array
from mindgap.platforms.pytorch.compilation.exported_program import export_program, quiet
from mindgap.platforms.standard_error import kept_standard_error
from mindgap_runtimes.iree import messages

_SCOPE: Final = "model"


@dataclass(frozen=True)
class CompiledGraph:
    """A compiled graph. `program`: the module's bytes. `fed`: the graph's inputs that it takes, in order.

    `parameters`: name -> tensor, for those that are not in the module but in `scope`.
    """

    program: bytes
    fed: tuple[int, ...]
    parameters: Mapping[str, Array]
    scope: str = _SCOPE


class Diagnostics(Exception):
    """The compiler does not take the program. The message is what it printed."""


def import_turbine() -> Any:
    """Imports iree-turbine's ahead-of-time compilation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("iree.turbine.aot")


def compile_graph(
    graph: Graph, inputs: Sequence[Array], target: str, flags: Sequence[str], *, external: bool
) -> CompiledGraph:
    """Compiles a graph. `target`: one of IREE's backends. `flags`: of `iree-compile`. `external`: the option's value.

    Raises `Unsupported`, or `CompileFailure`.
    """
    from mindgap.aten.tensors import to_numpy

    aot = import_turbine()
    program = export_program(graph, inputs)
    try:
        with quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exported = decomposed_program(program.exported)
            parameters = _externalised(aot, exported) if external else {}
            output = aot.export(exported)
        output.session.set_flags(*flags)
        compiled = _compiled(output, target)
    except Exception as error:
        reading = messages.read(error)
        raise loading_error(reading.kind, _text(error), messages.aten_operator(reading, graph)) from error
    return CompiledGraph(compiled, program.fed, {name: to_numpy(tensor) for name, tensor in parameters.items()})


def decomposed_program(exported: Any) -> Any:
    """The exported program after iree-turbine's decompositions."""
    table: Any = importlib.import_module("iree.turbine.aot.decompositions").current_aot_decompositions()
    return exported.run_decompositions(table)


def _compiled(output: Any, target: str) -> bytes:
    failed: RuntimeError | None = None
    compiled: Any = None
    with kept_standard_error() as printed:
        try:
            compiled = output.compile(save_to=None, target_backends=(target,))
        except RuntimeError as error:
            failed = error
    if failed is not None:
        raise Diagnostics(printed.text.strip() or str(failed)) from failed
    return bytes(compiled.map_memory())


def _externalised(aot: Any, exported: Any) -> dict[str, Any]:
    """Marks the parameters as kept outside of the module, as `aot.externalize_module_parameters` does."""
    traits = importlib.import_module("iree.turbine.aot.tensor_traits")
    for name, tensor in exported.state_dict.items():
        traits.ExternalTensorTrait(external_scope=_SCOPE, external_name=name).set(tensor)
    return dict(exported.state_dict)


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, Diagnostics) else f"{type(error).__name__}: {error}"
