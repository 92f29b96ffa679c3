"""Translates LiteRT operators that work element by element."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false
# (PyTorch's functions are partly untyped)

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from torch.nn import functional as F

from mindgap.aten.tensors import TORCH_DTYPES
from mindgap_runtimes.litert_files.node import (
    Tensor,
    TfliteNode,
    alike,
    by_values,
    dequantised,
    quantised,
    translates,
)

#: Operators whose results are what a function of PyTorch gives on the values of the operands.
_FUNCTIONS: Final[dict[str, Callable[..., Tensor]]] = {
    "ABS": torch.abs, "ATAN2": torch.atan2, "BITWISE_XOR": torch.bitwise_xor, "CEIL": torch.ceil, "COS": torch.cos,
    "ELU": F.elu, "EQUAL": torch.eq, "EXP": torch.exp, "FLOOR": torch.floor, "GREATER": torch.gt,
    "GREATER_EQUAL": torch.ge, "HARD_SWISH": F.hardswish, "LESS": torch.lt, "LESS_EQUAL": torch.le, "LOG": torch.log,
    "LOGICAL_AND": torch.logical_and, "LOGICAL_NOT": torch.logical_not, "LOGICAL_OR": torch.logical_or,
    "LOGISTIC": torch.sigmoid, "NEG": torch.neg, "NOT_EQUAL": torch.ne, "POW": torch.pow, "RELU": F.relu,
    "RELU6": F.relu6, "ROUND": torch.round, "RSQRT": torch.rsqrt, "SIGN": torch.sign, "SIN": torch.sin,
    "SQRT": torch.sqrt, "SQUARE": torch.square, "TANH": torch.tanh, "ZEROS_LIKE": torch.zeros_like,
    "RELU_N1_TO_1": lambda x: torch.clamp(x, -1.0, 1.0), "RELU_0_TO_1": lambda x: torch.clamp(x, 0.0, 1.0),
    "SQUARED_DIFFERENCE": lambda a, b: torch.square(a - b),
    "FLOOR_DIV": lambda a, b: torch.div(a, b, rounding_mode="floor"), "FLOOR_MOD": torch.remainder,
    "PRELU": lambda x, slope: torch.where(x >= 0, x, x * slope),
}  # fmt: skip
for _op, _function in _FUNCTIONS.items():
    translates(_op)(by_values(lambda _, *operands, function=_function: function(*operands)))

translates("ADD")(by_values(lambda _, a, b: a + b))
translates("SUB")(by_values(lambda _, a, b: a - b))
translates("GELU")(by_values(lambda node, x: F.gelu(x, approximate="tanh" if node.option("Approximate") else "none")))
translates("LEAKY_RELU")(by_values(lambda node, x: F.leaky_relu(x, node.option("Alpha"))))


@translates("MUL")
def mul(node: TfliteNode, a: Tensor, b: Tensor) -> Tensor:
    if not node.is_quantised:
        return node.activated(a * b)
    return node.rescaled(node.centred(0, a) * node.centred(1, b), node.factor(0, 1))


@translates("DIV")
def div(node: TfliteNode, a: Tensor, b: Tensor) -> Tensor:
    if not a.is_floating_point() and not node.is_quantised:
        return node.activated(torch.div(a, b, rounding_mode="trunc"))
    return by_values(lambda _, x, y: x / y)(node, a, b)


def _extreme(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Selects from integers that stand for values in the same way; else from the values."""

    def run(node: TfliteNode, a: Tensor, b: Tensor) -> Tensor:
        same = alike(node.operand(0), node.operand(1)) and alike(node.operand(0), node.outputs[0])
        return function(a, b) if same else by_values(lambda _, x, y: function(x, y))(node, a, b)

    return run


translates("MAXIMUM")(_extreme(torch.maximum))
translates("MINIMUM")(_extreme(torch.minimum))


@translates("SELECT", "SELECT_V2")
def select(node: TfliteNode, condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    if node.op == "SELECT" and condition.dim() == 1 and a.dim() > 1:
        condition = condition.reshape([-1] + [1] * (a.dim() - 1))
    if alike(node.operand(1), node.operand(2)) and alike(node.operand(1), node.outputs[0]):
        return torch.where(condition, a, b)
    return quantised(torch.where(condition, node.real(1, a), node.real(2, b)), node.outputs[0])


@translates("ADD_N")
def add_n(node: TfliteNode, *operands: Tensor) -> Tensor:
    node.only(not node.is_quantised, "of quantised integers")
    total = operands[0]
    for each in operands[1:]:
        total = total + each
    return total


@translates("CAST")
def cast(node: TfliteNode, x: Tensor) -> Tensor:
    kind = TORCH_DTYPES[node.outputs[0].dtype]
    return x.clone() if x.dtype == kind else x.to(kind)


@translates("QUANTIZE")
def quantize(node: TfliteNode, x: Tensor) -> Tensor:
    """Quantises floats, or integers that stand for values in another way."""
    node.only(node.outputs[0].quantisation is not None, "without a scale")
    return quantised(node.real(0, x), node.outputs[0])


@translates("DEQUANTIZE")
def dequantize(node: TfliteNode, x: Tensor) -> Tensor:
    """Returns the values of integers; widens float16."""
    return x.to(torch.float32) if x.is_floating_point() else dequantised(x, node.operand(0))
