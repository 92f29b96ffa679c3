"""Classifies tinygrad's exceptions, from its ONNX front end, its code generator and its compiler."""

from __future__ import annotations

import re
from typing import Final

from mindgap.platforms.messages import MessageTable, Reading, refusal

TABLE: Final = MessageTable(
    "tinygrad",
    (
        refusal(
            "not implemented",
            r"",
            "tinygrad's typed error: the front end lacks the operator or this case of it",
            "NotImplementedError",
        ),
        refusal(
            "dtype unknown to the front end",
            r"^\d+ is not a valid OnnxDataType$",
            "the front end looks the dtype up in its table, and has no entry",
            "ValueError",
        ),
        refusal(
            "dtype unknown to the renderer",
            r"^dtypes\.double$",
            "WGSL has no float64: the renderer looks the dtype up in its table, and has no entry",
            "KeyError",
        ),
        refusal(
            "dtype unknown to the compiler",
            r"(?:unknown type name|type specifier) '?__bf16|__bf16 is not supported|_Float16 is not supported",
            "the compiler that is installed lacks the dtype: a newer clang has it",
            "CompilerError",
        ),
    ),
)
_OPERATOR: Final = re.compile(r"^op='(\w+)' is not supported")


def read(error: BaseException) -> Reading:
    """Classifies an exception. `operator`: the ONNX operator that it names."""
    message = str(error)
    row = TABLE.find(message, type(error).__name__)
    named = _OPERATOR.match(message)
    return Reading("failure" if row is None else row.kind, row, "", named[1] if named else "")
