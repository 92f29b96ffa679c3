"""Classifies the exceptions of litert-torch, of its converter, and of LiteRT's interpreter."""

from __future__ import annotations

from typing import Final

from mindgap.platforms.messages import MessageTable, Reading, causes, refusal

TABLE: Final = MessageTable(
    "LiteRT",
    (
        refusal("no lowering", r"^Lowering not found: ", "litert-torch has no translation of it", "RuntimeError"),
        refusal("not implemented", r"", "litert-torch, or JAX under it, says so", "NotImplementedError"),
        refusal(
            "depends on data",
            r"",
            "litert-torch traces translations in JAX: JAX's typed errors for what depends on values",
            "ConcretizationTypeError", "NonConcreteBooleanIndexError", "TracerArrayConversionError",
            "TracerBoolConversionError", "TracerIntegerConversionError",
        ),
        refusal("dtype without a translation", r"^torch\.\w+$", "litert-torch's table of dtypes lacks it", "KeyError"),
        refusal(
            "dtype without a translation, within a call",
            r"^torch\.\w+\s+While executing ",
            "the same, as the interpreter of the program raises it",
            "RuntimeError",
        ),
        refusal(
            "dtype of a constant",
            r"^Got unsupported ScalarType \w+",
            "litert-torch writes constants from arrays of numpy, which lacks the dtype",
            "TypeError",
        ),
        refusal("dtype of the converter", r"^Unsupported (?:ir element )?type: ", "litert-torch says so"),
        refusal(
            "no operator of the format",
            r"failed to legalize operation '[\w.]+' that was explicitly marked illegal",
            "the converter says that the format has no such operator, or not for these dtypes",
        ),
        refusal(
            "operator of TensorFlow only",
            r"^Failed to export flatbuffer:\s+Some ops are not supported by the native TFLite runtime",
            "the converter names operators that only TensorFlow's own kernels have",
            "ValueError",
        ),
        refusal(
            "unknown operator of the interpreter",
            r"Encountered unresolved custom op|Didn't find op for builtin opcode",
            "the interpreter has no kernel for an operator of the model",
        ),
        refusal(
            "dtype of a kernel",
            r"(?:type|Type) '?\w+'? (?:\(\w+\) )?(?:is )?(?:currently )?(?:not|un)[ -]?supported",
            "the kernel says that it does not take the dtype",
        ),
    ),
)  # fmt: skip


def read(error: BaseException) -> Reading:
    """Classifies an exception, or its cause."""
    for each in causes(error):
        row = TABLE.find(str(each), type(each).__name__)
        if row is not None:
            return Reading(row.kind, row)
    return Reading("failure")
