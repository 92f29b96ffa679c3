"""A backend for the steps between PyTorch and a LiteRT model, to find the stage of a fault.

`TRANSLATED` ends with the StableHLO program that litert-torch hands to LiteRT's converter (`stop=import`), or with the
converted model (`stop=convert`), and does not load it. With `run=types` its results are eager PyTorch's, with
`run=values` those of StableHLO's reference interpreter.
"""

from __future__ import annotations

import importlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from mindgap.graph import Graph
from mindgap.platforms.onnx.step_backend import step_backend
from mindgap.platforms.protocol import Array, CompileFailure, Executable, Options
from mindgap.platforms.pytorch.compilation.exported_program import export_program
from mindgap_runtimes.litert.backend import MODULES, SIGNATURE
from mindgap_runtimes.litert.conversion import convert
from mindgap_runtimes.stablehlo import StableHloResults

_CHOICES: Final = {"run": ("types", "values"), "stop": ("import", "convert"), "x64": ("off", "on")}


class _Stopped(BaseException):
    """Ends a conversion at the program that the converter is given. No handler of an `Exception` takes it."""


def _translated(graph: Graph, inputs: Sequence[Array], options: Options) -> Executable:
    from mindgap_runtimes.step_results import DeclaredResults

    with _kept_program(stop=options["stop"] == "import") as kept:
        convert(graph, inputs, x64=options["x64"] == "on")
    if not kept:
        raise CompileFailure("litert-torch gave its converter no program")
    if options["run"] == "values":
        program = kept[0].replace(f"@{SIGNATURE}(", "@main(")
        return StableHloResults(program, export_program(graph, inputs).fed, len(graph.outputs))
    return DeclaredResults(graph)


@contextmanager
def _kept_program(*, stop: bool) -> Generator[list[str]]:
    """Keeps the text of the program that LiteRT's converter is given. `stop`: the converter does not run."""
    converter: Any = importlib.import_module("litert_torch._convert.litert_converter").converter_api_ext
    original = converter.run_convert_to_tfl_passes
    kept: list[str] = []

    def keep(module: Any, *rest: Any) -> Any:
        operation = getattr(module, "operation", module)
        kept.append(str(operation.get_asm(enable_debug_info=False)))
        if stop:
            raise _Stopped
        return original(module, *rest)

    converter.run_convert_to_tfl_passes = keep
    try:
        yield kept
    except _Stopped:
        pass
    finally:
        converter.run_convert_to_tfl_passes = original


TRANSLATED: Final = step_backend(MODULES, _translated, _CHOICES, {"JAX_PLATFORMS": "cpu"})
