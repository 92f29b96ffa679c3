"""A backend for the steps between PyTorch and IREE's machine code, to find the stage of a fault.

`TRANSLATED` translates the graph and computes nothing, so that its results are eager PyTorch's. It ends after
iree-turbine's import to torch-mlir (`stop=import`), after IREE's conversion of torch-mlir's operations
(`stop=input`), or after the passes over whole programs, before code is generated (`stop=executable-sources`).

`DECOMPOSED` runs the program after iree-turbine's decompositions in eager PyTorch.
"""

from __future__ import annotations

import importlib
import re
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from mindgap.graph import Graph
from mindgap.platforms.messages import loading_error
from mindgap.platforms.onnx.step_backend import step_backend
from mindgap.platforms.protocol import Array, Executable, Options
from mindgap.platforms.pytorch.compilation.exported_program import export_program, quiet
from mindgap_runtimes.iree import messages
from mindgap_runtimes.iree.backend import MODULES
from mindgap_runtimes.iree.compiler import Diagnostics, decomposed_program, import_turbine

#: What `iree-compile` does between the import and the steps of its option `--compile-to`.
_PLACE: Final = re.compile(r"<stdin>:\d+:\d+: ")
_STOPS: Final = ("import", "input", "executable-sources")


def _translated(graph: Graph, inputs: Sequence[Array], options: Options) -> Executable:
    from mindgap_runtimes.step_results import DeclaredResults

    try:
        program = import_program(graph, inputs)
        if options["stop"] != "import":
            compiled_to(program, options["stop"])
    except Exception as error:
        reading = messages.read(error)
        text = str(error) if isinstance(error, Diagnostics) else f"{type(error).__name__}: {error}"
        raise loading_error(reading.kind, text, messages.aten_operator(reading, graph)) from error
    return DeclaredResults(graph)


def import_program(graph: Graph, inputs: Sequence[Array]) -> str:
    """The program in torch-mlir's dialect, as iree-turbine imports it."""
    aot = import_turbine()
    program = export_program(graph, inputs)
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return str(aot.export(decomposed_program(program.exported)).mlir_module)


def compiled_to(program: str, phase: str) -> str:
    """Compiles a program of torch-mlir to a phase of `iree-compile`, and returns it as text.

    Raises `Diagnostics`. A signal that ends the compiler ends this process too, as it does where the compiler is in it.
    """
    tool: str = importlib.import_module("iree.compiler.tools.binaries").find_tool("iree-compile")
    command = [
        tool, "--iree-input-type=torch", "--iree-hal-target-backends=llvm-cpu",
        "--iree-input-demote-f64-to-f32=false", f"--compile-to={phase}", "-",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="mindgap-iree-") as name:
        out = Path(name, "program.mlir")
        done = subprocess.run(
            [*command, "-o", str(out)], input=program, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode < 0:
            signal.raise_signal(signal.Signals(-done.returncode))
        if done.returncode != 0:
            raise Diagnostics(
                _PLACE.sub("", done.stderr.strip()) or f"iree-compile ended with status {done.returncode}"
            )
        return out.read_text()


def _decomposed(graph: Graph, inputs: Sequence[Array], options: Options) -> Executable:
    from mindgap_runtimes.step_results import TorchResults

    program = export_program(graph, inputs)
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module: Any = decomposed_program(program.exported).module()
    return TorchResults(graph, module, program.fed)


TRANSLATED: Final = step_backend(MODULES, _translated, {"stop": _STOPS})
DECOMPOSED: Final = step_backend(MODULES, _decomposed)
