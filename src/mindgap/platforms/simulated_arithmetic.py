"""Checks the arithmetic of a platform that no hardware runs, with graphs of one operator (`arithmetic_check`).

The answer is kept with the environment that the platform runs in, in a file for each description: a simulator needs
minutes for a million values of each operation. Run as a module in another environment, it takes the environment, the
platform, the place of its backend and options, and prints the answer.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from mindgap.graph import DType, Graph, Input, Literal, Node, Ref, TensorSpec, dtype_name
from mindgap.graph.tensors import home
from mindgap.platforms import dtype_policy
from mindgap.platforms.arithmetic_check import OPERATIONS, VALUES, Operation, draw, judged
from mindgap.platforms.environment_process import backend_at
from mindgap.platforms.environments import Environment, EnvironmentProblem, find
from mindgap.platforms.environments.emulated import arithmetic_words, known_arithmetic
from mindgap.platforms.environments.environment import folder_of, is_complete
from mindgap.platforms.name import PlatformName
from mindgap.platforms.protocol import ARITHMETIC, EXECUTION, Array, Backend, Platform, Unsupported

_ATEN: Final[Mapping[str, str]] = {
    "add": "aten.add.Tensor", "subtract": "aten.sub.Tensor", "multiply": "aten.mul.Tensor",
    "divide": "aten.div.Tensor", "sqrt": "aten.sqrt.default", "minimum": "aten.minimum.default",
    "maximum": "aten.maximum.default", "rint": "aten.round.default", "floor": "aten.floor.default",
    "ceil": "aten.ceil.default", "trunc": "aten.trunc.default",
}  # fmt: skip
_EXACT: Final = "exact"
_NOT_RUN: Final = "not run: "
_MOST_TEXT: Final = 160
#: Runtimes of images split four dimensions into parts that fit their memory, and one dimension not always.
_LEADING: Final = (1, 64, 128)


def described_arithmetic(description: Mapping[str, Any], environment: str = "") -> Mapping[str, Any]:
    """The entry `ARITHMETIC` of the description of a platform that no hardware runs: the kept answer by operation, or
    how to get one. Nothing for a native platform.

    description: the rest of it. environment: the name of the one that it runs in, empty for mindgap's own.
    """
    if EXECUTION not in description:
        return {}
    emulated = known_arithmetic(find(environment)) if environment and is_complete(environment) else []
    if emulated:
        return {ARITHMETIC: arithmetic_words(emulated)}
    try:
        return {ARITHMETIC: json.loads(_file(description, environment).read_text(encoding="utf-8"))["operations"]}
    except (OSError, ValueError, TypeError, KeyError):
        return {ARITHMETIC: "not checked; mindgap env check ENVIRONMENT -p PLATFORM checks it"}


def kept_arithmetic(
    environment: str, versions: Callable[[Sequence[str]], Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """The answers that are kept with an environment: platform -> operation -> how exact it is.

    versions: gives the installed versions of packages there; it is called once, and not without an answer. The answer
    of another version of a package, or of versions that are not known, is left out.
    """
    answers = list[tuple[str, Mapping[str, str], dict[str, str]]]()
    for file in sorted(_folder(environment).glob("*.json"), key=lambda each: each.stat().st_mtime):
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            operations = {str(key): str(value) for key, value in content["operations"].items()}
            answers.append((str(content["platform"]), dict(content["versions"]), operations))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            continue
    names = sorted({package for _, checked, _ in answers for package in checked})
    there = versions(names) if names else dict[str, str]()
    return {
        platform: operations
        for platform, checked, operations in answers
        if checked and all(there.get(package) == version for package, version in checked.items())
    }


def checked_words(operations: Mapping[str, str]) -> str:
    """The answer in a few words: `arithmetic checked: 5 of 14 exact, 10 not run`, or `arithmetic not checked`."""
    if not operations:
        return "arithmetic not checked"
    exact = sum(each == _EXACT for each in operations.values())
    lacking = sum(each.startswith(_NOT_RUN) for each in operations.values())
    rest = f", {lacking} not run" if lacking else ""
    return f"arithmetic checked: {exact} of {len(operations) - lacking} exact{rest}"


def not_exact(operations: Mapping[str, str]) -> list[str]:
    """The operations that ran and are not exact, with what was found."""
    return [f"{key}: {value}" for key, value in operations.items() if not value.startswith((_EXACT, _NOT_RUN))]


def check_arithmetic(
    platform: Platform, values: int = VALUES, *, name: str = "", environment: str = ""
) -> dict[str, str]:
    """Compares operations of a platform with exact results, and keeps the answer under its name and environment.

    Each is `exact`, or `N of M are not exact` with an example, or `not run` with the reason. A platform has no operator
    for a fused product and sum: it is not among them.
    """
    results = {each.words: _compared(platform, each, values) for each in OPERATIONS if each.name != "fma"}
    description = platform.describe()
    file = _file(description, environment)
    file.parent.mkdir(parents=True, exist_ok=True)
    answer = {"platform": name, "versions": dict(description["versions"]), "operations": results}
    file.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    return results


def check_in_environment(where: Environment, platform: PlatformName, backend: Backend, place: str) -> dict[str, str]:
    """Does the same in an environment. `place`: where the backend is. Raises `EnvironmentProblem` where that fails."""
    options = [f"{name}={value}" for name, value in platform.backend_options.items()]
    name = PlatformName(platform.device_mode, platform.backend_options)
    command = [*where.command(__name__), where.name, name, place, *options]
    variables = {**os.environ, **backend.environment(platform.backend_options)}
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=variables, check=False)
    try:
        results: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        raise EnvironmentProblem(f"the arithmetic of {platform} could not be checked: {last}") from None
    return results


def _folder(environment: str) -> Path:
    return (folder_of(environment) if environment else home()) / "arithmetic"


def _file(description: Mapping[str, Any], environment: str) -> Path:
    """The file of an answer. What is measured, and the Python, are no part of its name."""
    named = {
        key: value for key, value in description.items() if key not in (ARITHMETIC, dtype_policy.KEY, "environment")
    }
    digest = hashlib.sha256(json.dumps(named, sort_keys=True, default=str).encode()).hexdigest()[:32]
    return _folder(environment) / f"{digest}.json"


def _compared(platform: Platform, operation: Operation, values: int) -> str:
    shape = (*_LEADING, -1) if values % math.prod(_LEADING) == 0 else (values,)
    operands = [each.reshape(shape) for each in draw(operation, values)]
    try:
        (result,) = platform.load(_graph(operation, operands), operands)(operands)
    except Unsupported as error:
        return f"{_NOT_RUN}{error}"[:_MOST_TEXT]
    except Exception as error:  # a fact about the platform
        return f"{_NOT_RUN}{type(error).__name__}: {error}"[:_MOST_TEXT]
    judgement = judged(operation, [each.ravel() for each in operands], np.ascontiguousarray(result).ravel())
    return (
        _EXACT if not judgement.wrong else f"{judgement.wrong} of {judgement.values} are not exact: {judgement.example}"
    )


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
    environment, name, place, *options = sys.argv[1:]
    # What a library prints, from Python or from C, is not the answer.
    answer = os.dup(1)
    os.dup2(2, 1)
    given = dict(each.split("=", 1) for each in options)
    results = check_arithmetic(backend_at(place).open(given), name=name, environment=environment)
    os.write(answer, json.dumps(results).encode() + b"\n")
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    _main()
