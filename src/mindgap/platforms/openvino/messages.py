"""Classifies OpenVINO's messages, for both front ends.

A front end that stops reports every operator that it could not translate, each with a message. They are
read one by one: the report is a refusal if OpenVINO has no rule for some operator, or if every message is a refusal.
"""

from __future__ import annotations

import re
from typing import Final

from mindgap.platforms.messages import Kind, MessageTable, Reading, failure, loading_error, refusal, running_error

TABLE: Final = MessageTable(
    "OpenVINO",
    (
        refusal(
            "no conversion rule",
            r"No conversion rule found for operations",
            "the front end has no translation for an operator",
        ),
        failure(
            "scalar operand of a matrix product",
            r"Scalars are not supported as MatMul inputs",
            "no definition of a matrix product takes scalars: OpenVINO made one of an empty constant",
        ),
        refusal(
            "dtype not supported",
            r"Unsupported input type (?!dynamic)\w+|^Element not supported$|op input element type must be",
            "OpenVINO says that the operator does not take the dtype, which the model's definition allows",
        ),
        refusal(
            "no tensor",
            r"Unsupported value_info type: ",
            "the ONNX front end takes no sequences, maps or optional values as inputs and outputs of a model",
        ),
        refusal(
            "rank not supported",
            r"\bis only supported for \dD\b",
            "OpenVINO says which ranks the operator takes",
        ),
        refusal(
            "no kernel in the plugin",
            r"^Unsupported operation of type: ",
            "the CPU plugin has neither a kernel nor a reference implementation of the operator for these operands",
        ),
        refusal(
            "dtype unknown to the front end",
            r"^'?torch\.\w+'?$",
            "the PyTorch front end looks the dtype up in its table, and has no entry",
            "KeyError",
        ),
        refusal(
            "complex output",
            r"^This is OpenVINO internal type\. Consumer: \w+::Result \S+ \(util::ComplexTypeMark ",
            "a model has no complex outputs: complex numbers are a mark within the PyTorch front end",
        ),
        refusal(
            "attribute not supported",
            r"^Unsupported \w+ mode: |\[PyTorch Frontend\].*\bsupport(?:ed)?\b",
            "OpenVINO says that it does not have this value of an attribute",
        ),
    ),
)

#: The head of one operator's message in a report: `-- DFT-20 with a message:`.
_PART: Final = re.compile(r"^-- (?P<operator>.+?)(?:-\d+)? with a message:$", re.MULTILINE)
_SUMMARY: Final = re.compile(r"^Summary:$", re.MULTILINE)
_MISSING: Final = re.compile(r"No conversion rule found for operations: (?P<operator>[\w:.]+?)(?:-\d+)?(?:,|\s|$)")
#: The node of the ONNX model: `<Node(DFT): node_DFT_22>`; else OpenVINO's own: `'opset7::DFT DFT_22 (…'`.
_ONNX_NODE: Final = re.compile(r"<Node\((?P<operator>\w+)\): (?P<node>[^>]*)>")
_OWN_NODE: Final = re.compile(
    r"node '\w+::(?P<operator>\w+) (?P<node>\S+) \(|operation of type: (?P<type>\w+) name: (?P<name>\S+)"
)
#: The node of the program that the PyTorch front end was at: `getitem_1/<built-in function getitem>`.
_CONVERTED: Final = re.compile(
    r"(?:of operation |Consumer: util::PtFrameworkNode )(?P<node>\S+/.+?) (?:with schema|\(util::SequenceMark )"
    r"|\(util::\w+ (?P<mark>\S+/\S+?)\[\d+\]"
)
#: What follows when an earlier operator of the report could not be translated: its result has no dtype then.
_CONSEQUENCE: Final = re.compile(r"Unsupported input type dynamic")


def read(message: str, raised: str = "") -> Reading:
    """Classifies the message of an exception of the class named `raised`.

    `node` is a node of the model that was translated, `operator` its operator there.
    """
    missing = _MISSING.search(message)
    if missing:
        return Reading("refusal", TABLE.find(message), "", missing["operator"])
    parts = [_read_part(operator, text, raised) for operator, text in parts_of(message)]
    return next((part for part in parts if part.kind == "failure"), parts[0])


def parts_of(message: str) -> list[tuple[str, str]]:
    """Splits a report into messages, each with its operator, without those that only follow from others.

    A message that is no report is the only part, without an operator.
    """
    report = _SUMMARY.split(message)[0]
    pieces = _PART.split(report)
    if len(pieces) == 1:
        return [("", message)]
    parts = list(zip(pieces[1::2], pieces[2::2], strict=True))
    return [part for part in parts if not _CONSEQUENCE.search(part[1])] or parts


def _read_part(operator: str, text: str, raised: str) -> Reading:
    row = next((row_found for line in text.splitlines() if (row_found := TABLE.find(line.strip(), raised))), None)
    kind: Kind = "failure" if row is None else row.kind
    model = _ONNX_NODE.search(text)
    if model:
        return Reading(kind, row, model["node"], operator or model["operator"])
    converted = _CONVERTED.search(text)
    if converted:
        return Reading(kind, row, converted["node"] or converted["mark"], operator)
    own = _OWN_NODE.search(text)
    if own:
        return Reading(kind, row, own["node"] or own["name"], operator or own["operator"] or own["type"])
    return Reading(kind, row, "", operator)


def stopped(error: Exception, found: Reading, op: str, *, running: bool) -> Exception:
    """Makes the exception for a classified message of OpenVINO about the ATen operator `op`."""
    if isinstance(error, MemoryError):
        return error
    if running:
        return running_error(found.kind, f"{type(error).__name__}: {error}", op)
    return loading_error(found.kind, str(error), op)
