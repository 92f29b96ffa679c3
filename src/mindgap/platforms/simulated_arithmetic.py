"""Checks the arithmetic of a platform that no hardware runs, with graphs of one operator (`arithmetic_check`).

The answer is kept in a file for each description of a platform: a simulator needs minutes for a million values of each
operation. Run as a module in another environment, it takes the place of a backend and options, and prints the answer.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindgap.graph import DType, Graph, Input, Literal, Node, Ref, TensorSpec, dtype_name
from mindgap.graph.tensors import home
from mindgap.platforms import dtype_policy
from mindgap.platforms.arithmetic_check import OPERATIONS, VALUES, Operation, draw, judged
from mindgap.platforms.environment_process import backend_at
from mindgap.platforms.environments import Environment, EnvironmentProblem
from mindgap.platforms.name import PlatformName
from mindgap.platforms.protocol import ARITHMETIC, Array, Backend, Platform, Unsupported

_ATEN: Final[Mapping[str, str]] = {
    "add": "aten.add.Tensor", "subtract": "aten.sub.Tensor", "multiply": "aten.mul.Tensor",
    "divide": "aten.div.Tensor", "sqrt": "aten.sqrt.default", "minimum": "aten.minimum.default",
    "maximum": "aten.maximum.default", "rint": "aten.round.default", "floor": "aten.floor.default",
    "ceil": "aten.ceil.default", "trunc": "aten.trunc.default",
}  # fmt: skip
_EXACT: Final = "exact"
_MOST_TEXT: Final = 160
#: Runtimes of images split four dimensions into parts that fit their memory, and one dimension not always.
_LEADING: Final = (1, 64, 128)


def known_arithmetic(description: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entry `ARITHMETIC` of a description: the kept answer, or how to get one. `description`: the rest of it."""
    try:
        return {ARITHMETIC: json.loads(_file(description).read_text(encoding="utf-8"))}
    except (OSError, ValueError):
        return {ARITHMETIC: "not checked; mindgap env check ENVIRONMENT -p PLATFORM checks it"}


def check_arithmetic(platform: Platform, values: int = VALUES) -> dict[str, str]:
    """Compares operations of a platform with exact results, and keeps the answer.

    Each is `exact`, or `N of M are not exact` with an example, or `not run` with the reason. A platform has no operator
    for a fused product and sum: it is not among them.
    """
    found = {each.words: _compared(platform, each, values) for each in OPERATIONS if each.name != "fma"}
    file = _file(platform.describe())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return found


def check_in_environment(where: Environment, platform: PlatformName, backend: Backend, place: str) -> dict[str, str]:
    """Does the same in an environment. `place`: where the backend is. Raises `EnvironmentProblem` where that fails."""
    options = [f"{name}={value}" for name, value in platform.backend_options.items()]
    command = [*where.command(__name__), place, *options]
    variables = {**os.environ, **backend.environment(platform.backend_options)}
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=variables, check=False)
    try:
        found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        said = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        raise EnvironmentProblem(f"the arithmetic of {platform} could not be checked: {said}") from None
    return found


def _file(description: Mapping[str, Any]) -> Path:
    """The file of an answer. What is measured, and the Python, are no part of its name."""
    named = {
        key: value for key, value in description.items() if key not in (ARITHMETIC, dtype_policy.KEY, "environment")
    }
    digest = hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:32]
    return home() / "arithmetic" / f"{digest}.json"


def _compared(platform: Platform, operation: Operation, values: int) -> str:
    shape = (*_LEADING, -1) if values % math.prod(_LEADING) == 0 else (values,)
    operands = [each.reshape(shape) for each in draw(operation, values)]
    try:
        (result,) = platform.load(_graph(operation, operands), operands)(operands)
    except Unsupported as error:
        return f"not run: {error}"[:_MOST_TEXT]
    except Exception as error:  # a fact about the platform
        return f"not run: {type(error).__name__}: {error}"[:_MOST_TEXT]
    found = judged(operation, [each.ravel() for each in operands], np.ascontiguousarray(result).ravel())
    return _EXACT if not found.wrong else f"{found.wrong} of {found.values} are not exact: {found.example}"


def _graph(operation: Operation, operands: list[Array]) -> Graph:
    inputs = tuple(
        Input(TensorSpec.contiguous(dtype_name(each.dtype), each.shape), Literal(each.tobytes())) for each in operands
    )
    result = TensorSpec.contiguous(operation.result, operands[0].shape)
    references = tuple(Ref(number) for number in range(len(operands)))
    if operation.name.startswith("to_"):
        node = Node("aten._to_copy.default", references, (("dtype", DType(operation.result)),), (result,))
    else:
        node = Node(_ATEN[operation.name], references, (), (result,))
    return Graph(inputs, (node,), (len(operands),))


def _main() -> None:
    place, *options = sys.argv[1:]
    # What a library prints, from Python or from C, is not the answer.
    answer = os.dup(1)
    os.dup2(2, 1)
    given = dict(each.split("=", 1) for each in options)
    found = check_arithmetic(backend_at(place).open(given))
    os.write(answer, json.dumps(found).encode() + b"\n")
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    _main()
