"""Classifies the exceptions of torchax, JAX and XLA."""

from __future__ import annotations

from typing import Final

from mindgap.platforms.messages import MessageTable, Reading, refusal

TABLE: Final = MessageTable(
    "JAX",
    (
        refusal(
            "no lowering",
            r"^Operator with name .* has no lowering$",
            "torchax's typed error: it has no translation of the operator",
            "OperatorNotFound",
        ),
        refusal("not implemented", r"", "torchax or JAX says so", "NotImplementedError"),
        refusal(
            "depends on data",
            r"",
            "a compiled program has fixed shapes and control flow: JAX's typed errors for what depends on values",
            "ConcretizationTypeError", "NonConcreteBooleanIndexError", "TracerArrayConversionError",
            "TracerBoolConversionError", "TracerIntegerConversionError",
        ),
        refusal(
            "dtype not accepted",
            r"does not accept dtype|UNIMPLEMENTED:",
            "JAX or XLA says that the operation does not take the dtype",
        ),
    ),
)  # fmt: skip


def read(error: BaseException) -> Reading:
    """Classifies an exception."""
    row = TABLE.find(str(error), type(error).__name__)
    return Reading("failure" if row is None else row.kind, row)
