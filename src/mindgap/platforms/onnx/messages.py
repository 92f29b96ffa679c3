"""Classifies the errors of PyTorch's ONNX exporter.

An operator without any translation raises nothing: `fx_program` finds it beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mindgap.platforms.messages import MessageTable, Reading, causes, refusal

NO_TRANSLATION: Final = refusal(
    "no translation for the operands",
    r"^No ONNX function found for",
    "the exporter's typed error: it has no translation of the operator, or none for these dtypes",
    "DispatchError",
)

TABLE: Final = MessageTable(
    "PyTorch's ONNX exporter",
    (
        NO_TRANSLATION,
        refusal(
            "translation incomplete",
            r"",
            "the translation itself raises NotImplementedError",
            "NotImplementedError",
        ),
        refusal(
            "rank not supported",
            r"^only \dD .*\b(?:is|are) supported$",
            "the translation asserts which ranks it takes",
            "AssertionError",
        ),
    ),
)


def read(error: BaseException) -> tuple[Reading, BaseException]:
    """Classifies an error of the exporter. Also returns the cause with the message: the innermost one."""
    innermost = causes(error)[-1]
    row = TABLE.find(str(innermost), type(innermost).__name__)
    return Reading("failure" if row is None else row.kind, row), innermost


def why(found: Reading, cause: BaseException) -> str:
    """Returns the reason of a refusal, with the exporter's message."""
    # The exporter's typed error begins with what it looked for and ends with why it found none.
    message = str(cause).rpartition("Failure message: ")[2]
    if found.row is NO_TRANSLATION:
        return f"the exporter has no ONNX translation for these operands: {message}"
    return f"its ONNX translation is incomplete: {message}"


def aten_operator(reading: Reading, origin: Mapping[str, str]) -> str:
    """Returns the ATen operator of a message; else the ONNX operator, as `onnx.Conv`; empty without one.

    `origin`: ONNX node name -> ATen operator. A runtime names no node, or a new one, where it has expanded an ONNX
    operator (a Softmax) into others (a ReduceMax): then the graph's only operator is meant.
    """
    known = origin.get(reading.node) if reading.node else None
    if known:
        return known
    if len(set(origin.values())) == 1:
        return next(iter(origin.values()))
    return f"onnx.{reading.operator}" if reading.operator else ""
