"""Extracts the reasons from runtimes' messages: removes source locations, node names, advice, nested reports.

`reasons` returns the remaining lines, each after the operator that it is about. Each rule is for one form of message
of some runtime. Text that fits no rule stays. `shortened_paths` is for messages as they are kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from mindgap.graph.tensors import home
from mindgap.run.source_files import PACKAGE, is_mindgaps, unescaped

#: Lines without a reason, whole. OpenVINO's places and headings; PyTorch's advice on debugging.
_EMPTY: Final = re.compile(
    r"""^(?:Exception\ from\ \S+:\d+: | FrontEnd\ API\ failed\ with\ \w+:
        | Model\ wasn't\ fully\ converted\..* | Summary: | --\ Conversion\ is\ failed\ for:.*
        | Details: | Not\ Implemented:
        | To\ facilitate\ the\ conversion\ of\ unsupported\ operations.* | Shape\ inference\ input\ shapes\ .*
        | Exception\ happened\ during\ conversion\ of\ operation\ .*
        | For\ (?:more\ information|extended\ logs|more\ debugging\ help|C\+\+\ stack\ trace)\b.*
        | If\ you\ suspect\ the\ guard\ .* | Caused\ by:\ \(.*\) | Use\ tlparse\ .* | None
        )\s*$""",
    re.VERBOSE,
)
#: What mindgap puts before a message: the operator, or the class of the exception.
_HEAD: Final = re.compile(r"^(?:(?P<operator>\w+(?:\.\w+)+): |\w+: )(?=Exception from |Check ')")
#: A condition that does not hold, with its place. Kept only where no reason follows.
_CHECK: Final = re.compile(r"^(?P<reason>Check '.*' failed) at \S+:\s*$")
#: OpenVINO on one operator of a report, and on the node that is being checked: what follows is about it.
_PART: Final = re.compile(r"^-- (?P<operator>.+?)(?:-\d+)? with a message:\s*$")
_NODE: Final = re.compile(
    r"^While validating (?:ONNX )?node '(?:<Node\((?P<onnx>\w+)\): [^>]*>|\w+::(?P<own>\w+) .*)'"
    r"(?: with friendly_name '[^']*')?:\s*(?P<rest>.*)$"
)
#: OpenVINO on an operator that reads the result of one that failed.
_CONSEQUENCE: Final = re.compile(r"\bUnsupported input type dynamic$")
_PLUGIN: Final = re.compile(r"^Unsupported operation of type: (?P<operator>\w+) name: .*$")

#: Parts of a line that vary from graph to graph, or name the place and not the reason.
_WITHIN: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # ONNX Runtime: its status, the node, the C++ function.
        (r"(?:(?<![\w.])\w+: )?\[ONNXRuntimeError\] : \d+ : (\w+) : ", r"\1: "),
        (r"Non-zero status code returned while running (\w+) node\. Name:'[^']*' Status Message: ", r"\1: "),
        # Its OpenVINO provider: C++ functions, and the part of the graph. The reason is on the next lines.
        (r"\S*/core/providers/openvino/\S+:\d+ .*\[OpenVINO-EP\] Exc.*$", "OpenVINO provider"),
        (r"\S*/core/providers/openvino/\S+:\d+ .*\[OpenVINO-EP\] ", "OpenVINO provider: "),
        (r"^\S+ node not found in graph cache", "<node> not found in graph cache"),
        (r"\. Operation name: \S+$", ""),
        (r"\S*onnxruntime(?:_src|/onnxruntime/)\S+:\d+ [^()]*\([^()]*\)(?: const)?(?: \[[^\]]*\])? ", ""),
        (r"\bNode \([^)]*\) Op \((\w+)\) ", r"\1: "),
        (r"\b(parameter) \([^)]*\) (of operator)", r"\1 \2"),
        (r" in node \([^)]*\)", ""),
        (r" node with name '[^']*'", ""),
        # FX graphs: the names of nodes.
        (r"%\w+", "%<node>"),
        (r"\[num_users=\d+\]", ""),
        # onnxscript: symbolic tensors, and where the function is defined.
        (r"SymbolicTensor\((?:[^()]|\([^()]*(?:\([^()]*\))?[^()]*\))*\)", "<tensor>"),
        # OpenVINO: nodes with their operands.
        (r"\bop: \w+::(\w+) .*$", r"op: \1"),
        (r"^\[(\w+)\] END: node: \w+::(\w+) .* CALLBACK HAS THROWN: ", r"\1: \2: "),
    )
)


#: Python's warnings of deprecated functions: the warning, and the source line that follows.
_DEPRECATED: Final = re.compile(r"^\S+:\d+: (?:Future|Deprecation|PendingDeprecation)Warning: ")
#: RKNN-Toolkit2's log below errors, and its progress bars.
_LOGGED: Final = re.compile(r"^(?:[DIW] RKNN: |D |I .*(?:%\||simulator!$)|[- ]*\+?-+\+?-+$)|\d+%\|[█ ]")
#: A line of the stack that Python prints when it crashes.
_FRAME: Final = re.compile(r'^  File "(?P<file>[^"]*)", line \d+ in \S+$')
#: The folders before a file of an installed package. In quotes they may have spaces.
_PACKAGES: Final = re.compile(
    r"(?:(?<=['\"])/(?:[^'\"\n]*/)?|(?<![\w.~/])/(?:[^\s'\"<>:,;()\[\]]*/)?)(?:site|dist)-packages/"
)
#: What stands before the path of a file in mindgap's package.
_BEFORE_OURS: Final = f"{PACKAGE}{os.sep}"


#: Characters of a message in one line.
_MOST_TEXT: Final = 300
#: The last line of a traceback within a message.
_INNER: Final = re.compile(r"^[\w.]*(?:Error|Exception): (?=\S)")


def telling_lines(lines: list[str], package: str = PACKAGE) -> list[str]:
    """Returns what a worker printed without what has nothing to do with its end: deprecation warnings, the list of
    extension modules, progress, and of a stack the frames of mindgap and of Python's launcher. Paths stay as they were
    printed: they tell which frames are the user's. `package`: the folder of mindgap's package where the worker runs."""
    lines_told: list[str] = []
    warned = False
    for line in lines:
        source, warned = warned and line.startswith("  ") and not _FRAME.match(line), bool(_DEPRECATED.match(line))
        frame = _FRAME.match(line)
        file = "" if frame is None else unescaped(frame["file"])
        ours = file.startswith("<frozen ") or is_mindgaps(file, package)
        if not (source or warned or ours or line.startswith("Extension modules: ") or _LOGGED.search(line)):
            lines_told.append(line)
    return lines_told


def shortened_paths(text: str) -> str:
    """Returns a message without what its paths say of this machine: a file of a package begins with the package, and
    mindgap's and the user's home are `$MINDGAP_HOME` and `~`."""
    text = _PACKAGES.sub("", text).replace(_BEFORE_OURS, "mindgap/")
    for folder, name in _homes(str(home().absolute()), str(Path("~").expanduser())):
        text = folder.sub(name, text)
    return text


@cache
def _homes(ours: str, users: str) -> list[tuple[re.Pattern[str], str]]:
    """The folders of the home of mindgap and of the user, as patterns, with their names. `/` is no home."""
    known = {ours: "$MINDGAP_HOME", users: "~"}
    return [
        (re.compile(rf"(?<![\w.~/-]){re.escape(folder)}(?=/)"), name)
        for folder, name in known.items()
        if Path(folder).is_absolute() and len(Path(folder).parts) > 1
    ]


def one_line(error: BaseException) -> str:
    """Formats an exception as one line: its type and the first line of its message that has words. Of a message that
    ends with another exception, as TorchScript's do, that one."""
    lines = [line.strip() for line in message_of(error).splitlines() if line.strip()]
    if len(lines) > 1 and _INNER.match(lines[-1]):
        return lines[-1][:_MOST_TEXT]
    return f"{type(error).__name__}: {lines[0][:_MOST_TEXT]}" if lines else type(error).__name__


def message_of(error: BaseException) -> str:
    """Returns the message of an exception, in characters that any terminal can show. A user's class may have none."""
    try:
        text = str(error)
    except Exception as failed:
        return f"(its message cannot be read: {type(failed).__name__})"
    return text.encode(errors="backslashreplace").decode()


def reasons(lines: list[str]) -> list[str]:
    """Returns the reasons in the lines of a message, each after its operator if the message names it before.

    A reason that only follows from another operator's failure is left out if there is another reason.
    """
    found_reasons = list(_reasons(lines))
    return [line for line in found_reasons if not _CONSEQUENCE.search(line)] or found_reasons


def _reasons(lines: list[str]) -> Iterator[str]:
    prefix, operator, condition = "", "", ""
    for line in lines:
        text = line.strip()
        head = _HEAD.match(text)
        if head:
            prefix, text = f"{head['operator']}: " if head["operator"] else "", text[head.end() :]
        part = _PART.match(text) or _PLUGIN.match(text)
        if part:
            if operator and condition:
                yield prefix + operator + condition
            operator, condition = f"{part['operator']}: ", ""
            continue
        node = _NODE.match(text)
        if node:
            operator = operator or f"{node['onnx'] or node['own']}: "
            text = node["rest"]
        check = _CHECK.match(text)
        if check:
            condition = check["reason"]
        elif text and not _EMPTY.match(text):
            yield prefix + operator + _plain(text)
            condition = ""
    if condition:
        yield prefix + operator + condition


def _plain(line: str) -> str:
    for pattern, replacement in _WITHIN:
        line = pattern.sub(replacement, line)
    return line
