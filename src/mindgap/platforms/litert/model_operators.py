"""Evaluates a converted LiteRT model operator by operator in numpy: what the converter wrote, without LiteRT's kernels.

Only operators without attributes are in the table, since the interpreter lists names and tensors alone.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from mindgap.platforms.protocol import Array, Unsupported

_OPERATORS: Final[Mapping[str, Callable[..., Any]]] = {
    "ABS": np.abs, "ADD": np.add, "CEIL": np.ceil, "COS": np.cos, "DIV": np.divide, "EQUAL": np.equal, "EXP": np.exp,
    "FLOOR": np.floor, "GREATER": np.greater, "GREATER_EQUAL": np.greater_equal, "LESS": np.less,
    "LESS_EQUAL": np.less_equal, "LOG": np.log, "LOGICAL_AND": np.logical_and, "LOGICAL_NOT": np.logical_not,
    "LOGICAL_OR": np.logical_or, "MAXIMUM": np.maximum, "MINIMUM": np.minimum, "MUL": np.multiply, "NEG": np.negative,
    "NOT_EQUAL": np.not_equal, "POW": np.power, "SELECT": np.where, "SELECT_V2": np.where, "SIGN": np.sign,
    "SIN": np.sin, "SQRT": np.sqrt, "SQUARE": np.square, "SUB": np.subtract, "TANH": np.tanh,
}  # fmt: skip


class OperatorResults:
    """An executable: the operators of one model."""

    def __init__(self, model: bytes, fed: Sequence[int], outputs: int, signature: str) -> None:
        """`fed`: the graph's input behind the model's input `args_N`. Raises `Unsupported`."""
        library: Any = importlib.import_module("ai_edge_litert.interpreter")
        plain = library.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        self._interpreter: Any = library.Interpreter(model_content=model, experimental_op_resolver_type=plain)
        self._interpreter.allocate_tensors()
        self._nodes: list[Any] = list(self._interpreter._get_ops_details())
        runner = self._interpreter.get_signature_runner(signature)
        given, found = runner.get_input_details(), runner.get_output_details()
        self._inputs = {int(each["index"]): fed[int(name.removeprefix("args_"))] for name, each in given.items()}
        self._outputs = [int(found[f"output_{place}"]["index"]) for place in range(outputs)]
        self._dtypes = {int(each["index"]): each["dtype"] for each in self._interpreter.get_tensor_details()}
        for node in self._nodes:
            if node["op_name"] not in _OPERATORS:
                raise Unsupported("model", f"no evaluation of LiteRT's {node['op_name']}")

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        values: dict[int, Array] = {
            index: np.asarray(inputs[number], self._dtypes[index]) for index, number in self._inputs.items()
        }
        with np.errstate(all="ignore"):
            for node in self._nodes:
                operands = [self._value(values, int(index)) for index in node["inputs"]]
                result = int(node["outputs"][0])
                values[result] = np.asarray(_OPERATORS[node["op_name"]](*operands), self._dtypes[result])
        return [np.array(self._value(values, index), order="C") for index in self._outputs]

    def _value(self, values: Mapping[int, Array], index: int) -> Array:
        return values[index] if index in values else self._interpreter.get_tensor(index)
