"""Classifies the exceptions of RKNN-Toolkit2, and reads which operators its compiler gives to the NPU."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final

from mindgap.platforms.delegation import Delegation
from mindgap.platforms.messages import MessageTable, Reading, refusal

#: How the toolkit reports that it lacks something: "not support", "Unsupport onnx opset 20, need <= 19!".
NOT_SUPPORTED: Final = r"(?i)\bnot support(?:ed)?\b|\bunsupport(?:ed)?\b"
TABLE: Final = MessageTable(
    "RKNN-Toolkit2",
    (
        refusal("not supported", NOT_SUPPORTED, "the toolkit says so"),
        refusal(
            "no kernel of ONNX Runtime",
            r"\bNOT_IMPLEMENTED : Could not find an implementation",
            "the toolkit folds constants and finds shapes with ONNX Runtime, which lacks the operator for the dtype",
        ),
    ),
)
#: An operator in the compiler's table: number, operator, dtype, target, shapes and times, `OPERATOR:NODE`.
_ROW: Final = re.compile(r"\] +\d+ +(\w+) +(\w+) +(CPU|NPU|GPU) .* (\w+):(\S+) *$", re.MULTILINE)
_ENDS: Final = ("InputOperator", "OutputOperator")
#: An error as it is printed: coloured, behind the name of the method, or from the compiler.
_ERROR: Final = re.compile(
    r"^(?:\x1b\[[\d;]*m)?E(?:\x1b\[[\d;]*m)? (?:\x1b\[[\d;]*m)?(?:RKNN: \[[\d:.]+\] )?([^\x1b\n]+)", re.MULTILINE
)
_NODE: Final = re.compile(r"^Op name: (\S+)$", re.MULTILINE)


def read(text: str, printed: str) -> Reading:
    """Classifies the message of an exception. `printed`: what the toolkit printed, in which it may name a node."""
    row = TABLE.find(text)
    named = _NODE.search(printed)
    return Reading("failure" if row is None else row.kind, row, named[1] if named else "")


def last_line(error: BaseException, printed: str) -> str:
    """The error at the end of the traceback that is the text of an exception of the toolkit's; without a text, the last
    error that it printed."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    if not lines:
        errors = _ERROR.findall(printed)
        return errors[-1] if errors else f"{type(error).__name__}; RKNN-Toolkit2 says nothing of it"
    starts = [number for number, line in enumerate(lines) if re.match(r"^\w+(?:Error|Exception): ", line)]
    return " ".join(line.strip() for line in lines[starts[-1] if starts else -1 :])


def delegation(printed: str, chip: str, origin: Mapping[str, str]) -> Delegation:
    """Reads the compiler's table: what the NPU of a chip runs, and what its processors run.

    `origin`: ONNX node name -> ATen operator. An operator of a node that the toolkit made has the toolkit's name.
    """
    rows = [row for row in _ROW.findall(printed) if row[0] not in _ENDS]
    ran = Counter(origin.get(node, name) for name, _, target, _, node in rows if target == "NPU")
    rest = Counter(origin.get(node, name) for name, _, target, _, node in rows if target != "NPU")
    return Delegation(f"{chip}'s NPU", dict(ran), dict(rest), f"{chip}'s processors" if rest else "")
