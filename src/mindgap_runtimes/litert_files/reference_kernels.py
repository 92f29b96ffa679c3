"""Runs a model file on LiteRT's reference kernels in the environment of `litert/cpu`, and returns all its tensors.

`python -m mindgap_runtimes.litert_files.reference_kernels FILE INPUTS.npz OUTPUTS.npz` is the process there.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mindgap.graph import Array, MindgapError
from mindgap.platforms.environments import EnvironmentProblem, made_environment

_ENVIRONMENT = "litert"


class NotRun(MindgapError):
    """The reference kernels gave nothing, and why."""


@dataclass(frozen=True, slots=True)
class KernelValues:
    """The values of a file's tensors by number. `reference`: whether the reference kernels computed them, or the
    optimised ones in their place."""

    values: Mapping[int, Array]
    reference: bool


def values_of(file: Path, inputs: Sequence[Array], seconds: float) -> KernelValues:
    """Returns the values of a file's tensors; those that the interpreter does not keep are left out.

    `inputs`: in the file's order. Raises `NotRun` where the environment is not there or the file does not run in it.
    """
    try:
        environment = made_environment(_ENVIRONMENT)
        if environment is None:
            raise NotRun(f"there is no environment {_ENVIRONMENT} (mindgap env create {_ENVIRONMENT})")
        environment.check("ai_edge_litert")
    except EnvironmentProblem as problem:
        raise NotRun(str(problem)) from problem
    with tempfile.TemporaryDirectory(prefix="mindgap-litert-") as folder:
        given, found = Path(folder, "inputs.npz"), Path(folder, "outputs.npz")
        np.savez(given, *inputs)
        command = [*environment.command(__name__), str(file.resolve()), str(given), str(found)]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired as error:
            raise NotRun(f"they took more than {seconds:.0f} s") from error
        if ran.returncode or not found.is_file():
            lines = [line for line in ran.stderr.splitlines() if line.strip()]
            why = lines[-1] if ran.returncode > 0 and lines else f"their process ended with status {ran.returncode}"
            raise NotRun(why[:200])
        with np.load(found) as arrays:
            numbers = arrays["arr_0"]
            values = {int(number): arrays[f"arr_{place}"] for place, number in enumerate(numbers, 1)}
            return KernelValues(values, bool(arrays["reference"]))


def _allocated(library: Any, file: str, inputs: Sequence[Array]) -> tuple[Any, bool]:
    """Returns an interpreter of the reference kernels, and True; of the optimised ones, without a delegate, and False
    for a file with an operator that the reference kernels lack, such as `CEIL`."""
    resolvers = library.OpResolverType
    for kernels in (resolvers.BUILTIN_REF, resolvers.BUILTIN_WITHOUT_DEFAULT_DELEGATES):
        try:
            interpreter = library.Interpreter(
                model_path=file, experimental_op_resolver_type=kernels, experimental_preserve_all_tensors=True
            )
            for each, array in zip(interpreter.get_input_details(), inputs, strict=True):
                if tuple(each["shape"]) != array.shape:
                    interpreter.resize_tensor_input(each["index"], list(array.shape))
            interpreter.allocate_tensors()
        except (RuntimeError, ValueError) as error:
            if kernels == resolvers.BUILTIN_REF and "Didn't find op" in str(error):
                continue
            raise
        return interpreter, kernels == resolvers.BUILTIN_REF
    raise AssertionError("the last kernels are returned, or raise")


def _run(file: str, given: str, found: str) -> None:
    library: Any = importlib.import_module("ai_edge_litert.interpreter")
    with np.load(given) as arrays:
        inputs = [arrays[name] for name in arrays.files]
    interpreter, reference = _allocated(library, file, inputs)
    for each, array in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(each["index"], array)
    interpreter.invoke()
    numbers, values = list[int](), list[Array]()
    for each in interpreter.get_tensor_details():
        try:
            value = np.asarray(interpreter.get_tensor(each["index"]))
        except ValueError:  # it has no data
            continue
        if value.dtype.kind in "biufc":
            numbers.append(each["index"])
            values.append(value)
    np.savez(found, np.array(numbers, np.int64), *values, reference=np.array(reference))


if __name__ == "__main__":
    _run(*sys.argv[1:])
