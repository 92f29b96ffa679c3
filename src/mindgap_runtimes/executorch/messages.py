"""Classifies the exceptions of ExecuTorch's exporter, and what its runtime prints when it fails."""

from __future__ import annotations

import re
from typing import Final

from mindgap.platforms.messages import MessageTable, Reading, causes, refusal

TABLE: Final = MessageTable(
    "ExecuTorch's exporter",
    (
        refusal(
            "not in core ATen",
            r"is not in Core ATen opset",
            "the verifier of the edge dialect says that it has no such operator",
        ),
        refusal(
            "no out variant",
            r"^Missing out variants: ",
            "programs call the variants of operators that take the memory of the result, and PyTorch has none",
            "RuntimeError",
        ),
        refusal(
            "dtypes of the dialect",
            r"taking Tensor inputs with mismatched dtypes",
            "the edge dialect lists the dtypes that an operator takes, and these are not among them",
        ),
        refusal(
            "overlapping memory",
            r"^0 in strides is not supported for ExecuTorch",
            "the exporter says that it takes no expanded tensor",
        ),
        refusal("not supported", r"\[ExportErrorType\.NOT_SUPPORTED\]", "the exporter's typed error", "ExportError"),
        refusal("not implemented", r"", "the exporter says so", "NotImplementedError"),
    ),
)
RUNTIME_TABLE: Final = MessageTable(
    "ExecuTorch's runtime",
    (
        refusal("error number", r"\berror:? 0x:?1[014]\b", "NotSupported, NotImplemented or OperatorMissing"),
        refusal("case of a kernel", r"\bis not supported(?: yet)? in \w", "the kernel says that it lacks the case"),
        refusal("dtype of a kernel", r"Unhandled dtype \w+ for \S", "the kernel has no case for the dtype"),
    ),
)
#: `[op_add.cpp:64] text`, with a time before it or without.
_LINE: Final = re.compile(r"^.*?\[([\w.]+:\d+)\] (.+)$")
_ARGUMENT: Final = re.compile(r"arg \d+ with type id")
_MOST_LINES: Final = 6


def read(error: BaseException) -> Reading:
    """Classifies an exception of the exporter, or its cause."""
    for each in causes(error):
        row = TABLE.find(str(each), type(each).__name__)
        if row is not None:
            return Reading(row.kind, row)
    return Reading("failure")


def read_runtime(text: str) -> Reading:
    """Classifies a failure of the runtime by `runtime_text`."""
    row = RUNTIME_TABLE.find(text)
    return Reading("failure" if row is None else row.kind, row)


def runtime_text(error: BaseException, printed: str) -> str:
    """The message of an exception, with the first lines that the runtime printed: its number alone means little."""
    matches = [match for line in printed.splitlines() if (match := _LINE.match(line)) and not _ARGUMENT.match(match[2])]
    lines = [f"{match[1]}: {match[2].strip()}" for match in matches]
    return "; ".join([f"{type(error).__name__}: {str(error).strip()}", *dict.fromkeys(lines[:_MOST_LINES])])


def exporter_text(error: BaseException) -> str:
    """The message of an exception, without the advice that the verifier gives; of its cause where it only lists the
    passes that ran before."""
    if str(error).startswith("An error occurred when running the"):
        error = causes(error)[-1]
    return f"{type(error).__name__}: {str(error).partition('There are a few things to try')[0].strip()}"
