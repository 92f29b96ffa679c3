"""Runs a StableHLO program in StableHLO's reference interpreter, which jaxlib brings.

It evaluates one operation after the other, and neither fuses operations nor generates code. As a module it runs
`program.mlir` of a folder on `arguments.npz`, and writes `results.npz`.
"""

from __future__ import annotations

import argparse
import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindgap.graph import numpy_dtype
from mindgap.platforms.environment_process import add_options
from mindgap.platforms.onnx.arrays import carrier
from mindgap.platforms.protocol import Array, RunFailure, Unsupported

#: Operations that end the process in the interpreter, which has no implementation of them.
_MISSING: Final = frozenset(
    f"stablehlo.{name}"
    for name in (
        "custom_call", "fft", "cholesky", "triangular_solve", "rng", "rng_bit_generator", "batch_norm_inference",
        "batch_norm_training", "batch_norm_grad", "composite",
    )
)  # fmt: skip
_PACKED: Final = np.dtype(np.bool_)


class StableHloResults:
    """An executable: the function `main` of a program. `declared`: the types of its results."""

    def __init__(self, program: str, fed: Sequence[int], outputs: int | None = None) -> None:
        """`program`: its text. `fed`: the graph's input behind each argument. Raises `RunFailure` for another number of
        results than the graph's `outputs`, where they are given."""
        from mindgap_runtimes.step_results import DeclaredType, graph_dtype

        self._program, self._fed = program, fed
        ir, context = _opened()
        with context:
            taken, given = _signature(ir, ir.Module.parse(program))
            self._dtypes = [numpy_dtype(graph_dtype(str(each.element_type))) for each in taken]
            self.declared = [DeclaredType(str(each.element_type), tuple(each.shape)) for each in given]
        if outputs not in (None, len(self.declared)) or len(self._dtypes) != len(fed):
            raise RunFailure(f"the StableHLO program takes {len(taken)} arguments and gives {len(given)} results")

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the program. Raises `Unsupported` where the interpreter lacks an operation."""
        given = [
            np.asarray(inputs[number], dtype, order="C") for number, dtype in zip(self._fed, self._dtypes, strict=True)
        ]
        ir, context = _opened()
        with context:
            try:
                return self._evaluated(ir, given)
            except Exception as error:
                if isinstance(error, (MemoryError, Unsupported)):
                    raise
                raise Unsupported("model", f"StableHLO's interpreter: {type(error).__name__}: {error}") from error

    def _evaluated(self, ir: Any, given: Sequence[Array]) -> list[Array]:
        stablehlo: Any = importlib.import_module("jaxlib.mlir.dialects.stablehlo")
        module = ir.Module.parse(self._program)
        _expand(module)
        _require_known(ir, module)
        taken, _ = _signature(ir, module)
        results = stablehlo.eval_module(module, [_constant(ir, *each) for each in zip(given, taken, strict=True)])
        return [np.array(each, order="C").reshape(tuple(ir.RankedTensorType(each.type).shape)) for each in results]


def _opened() -> tuple[Any, Any]:
    """MLIR's Python module, and a context with the dialects that JAX writes."""
    importlib.import_module("jaxlib.mlir.dialects.chlo")
    mlir: Any = importlib.import_module("jax._src.interpreters.mlir")
    context = mlir.make_ir_context()
    context.allow_unregistered_dialects = True
    return importlib.import_module("jaxlib.mlir.ir"), context


def _signature(ir: Any, module: Any) -> tuple[list[Any], list[Any]]:
    """The types of the arguments and of the results of the function `main`."""
    for function in module.body:
        if ir.StringAttr(function.attributes["sym_name"]).value == "main":
            declared = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
            return [[ir.RankedTensorType(each) for each in types] for types in (declared.inputs, declared.results)]  # type: ignore[return-value]
    raise RunFailure("the StableHLO program has no function main")


def _expand(module: Any) -> None:
    """Expands CHLO's operations (`chlo.asinh`) to StableHLO's, as XLA does."""
    importlib.import_module("jaxlib.mlir.dialects.stablehlo").register_stablehlo_passes()
    passes: Any = importlib.import_module("jaxlib.mlir.passmanager").PassManager
    passes.parse("builtin.module(func.func(chlo-legalize-to-stablehlo))").run(module.operation)


def _require_known(ir: Any, module: Any) -> None:
    names: set[str] = set()

    def note(operation: Any) -> Any:
        names.add(str(operation.name))
        return ir.WalkResult.ADVANCE

    module.operation.walk(note)
    unknown = sorted(
        name for name in names if name in _MISSING or name.split(".")[0] not in ("stablehlo", "func", "builtin")
    )
    if unknown:
        raise Unsupported(unknown[0], "StableHLO's interpreter has no implementation of it")


def _constant(ir: Any, array: Array, declared: Any) -> Any:
    raw = np.packbits(array, bitorder="little") if array.dtype == _PACKED else array.view(carrier(array.dtype))
    return ir.DenseElementsAttr.get(raw, shape=tuple(declared.shape), type=declared.element_type)


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    add_options(parser)
    folder: Path = parser.parse_args().folder
    os.environ["JAX_PLATFORMS"] = "cpu"
    given = np.load(folder / "arguments.npz")
    arguments = [given[key] for key in given.files]
    program = StableHloResults((folder / "program.mlir").read_text(), range(len(arguments)))
    np.savez(folder / "results.npz", *program(arguments))


if __name__ == "__main__":
    _main()
