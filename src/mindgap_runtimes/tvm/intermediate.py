"""A backend for the steps between PyTorch and TVM's code, to find the stage of a fault.

`TRANSLATED` translates the graph and computes nothing: `stop=import` ends with the Relax module of the front end,
`stop=passes` after the passes that `tvm.compile` runs on it. The results are eager PyTorch's, in the shapes and dtypes
that the Relax module declares.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, Final

from mindgap.graph import Graph
from mindgap.platforms.messages import loading_error
from mindgap.platforms.onnx.step_backend import step_backend
from mindgap.platforms.protocol import Array, Executable, Options, RunFailure
from mindgap.platforms.pytorch.compilation.exported_program import export_program, quiet
from mindgap_runtimes.tvm import messages
from mindgap_runtimes.tvm.backend import MODULES


def _imported(graph: Graph, inputs: Sequence[Array]) -> Any:
    """Returns the Relax module of the front end. Raises as the backend does."""
    program = export_program(graph, inputs)
    frontend: Any = importlib.import_module("tvm.relax.frontend.torch")
    try:
        with quiet():
            return frontend.from_exported_program(program.exported)
    except Exception as error:
        raise _typed(error, graph) from error


def _typed(error: Exception, graph: Graph) -> Exception:
    reading = messages.read(error)
    return loading_error(reading.kind, messages.text(error), messages.aten_operator(reading, graph))


def _translated(graph: Graph, inputs: Sequence[Array], options: Options) -> Executable:
    from mindgap_runtimes.step_results import DeclaredResults

    module = _imported(graph, inputs)
    if options["stop"] == "passes":
        tvm: Any = importlib.import_module("tvm")
        try:
            with tvm.target.Target({"kind": "llvm"}):
                tvm.relax.get_pipeline("default")(module)
        except Exception as error:
            raise _typed(error, graph) from error
    return DeclaredResults(graph, _declared(module))


def _sizes(shape: Any) -> tuple[int, ...] | None:
    """The sizes of a shape of Relax's; None for one that is not static."""
    sizes: list[Any] = [] if shape is None else list(shape)
    known = shape is not None and all(hasattr(size, "value") for size in sizes)
    return tuple(int(size) for size in sizes) if known else None


def _declared(module: Any) -> list[Any]:
    from mindgap_runtimes.step_results import DeclaredType

    result = module["main"].ret_ty
    fields = list(getattr(result, "fields", [result]))
    results: list[Any] = []
    for each in fields:
        if not hasattr(each, "dtype"):
            raise RunFailure(f"the Relax module returns a {type(each).__name__}, not a tensor")
        results.append(DeclaredType(str(each.dtype), _sizes(getattr(each, "shape", None))))
    return results


TRANSLATED: Final = step_backend(MODULES, _translated, {"stop": ("import", "passes")})
