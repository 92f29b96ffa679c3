"""Classifies the errors of PyTorch's ONNX exporter.

An operator for which it has no translation at all raises nothing: `onnx_fx` finds it beforehand.
"""

from __future__ import annotations

from typing import Final

from mindgap.platforms.messages import MessageTable, Reading, refusal

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


def chain(error: BaseException) -> list[BaseException]:
    """The error and what it was raised from, outermost first."""
    found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in found:
        found.append(current)
        current = current.__cause__
    return found


def read(error: BaseException) -> tuple[Reading, BaseException]:
    """What an error of the exporter says, and which of its causes says it: the innermost, which the others wrap."""
    innermost = chain(error)[-1]
    row = TABLE.find(str(innermost), type(innermost).__name__)
    return Reading("failure" if row is None else row.kind, row), innermost


def why(found: Reading, cause: BaseException) -> str:
    """The reason of a refusal, in words of ours and the exporter's own."""
    # The exporter's typed error begins with what it looked for and ends with why it found none.
    said = str(cause).rpartition("Failure message: ")[2]
    if found.row is NO_TRANSLATION:
        return f"the exporter has no ONNX translation for these operands: {said}"
    return f"its ONNX translation is incomplete: {said}"
