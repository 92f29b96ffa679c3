"""Normalizes failure messages: removes the text that changes from run to run.

Two failures with one cause on one platform should have equal signatures, on any machine and in any
process: so addresses, paths, sizes, numbers, generated names and identifiers become placeholders,
and the lines of a stack trace go. What remains are the words that its authors wrote.
"""

from __future__ import annotations

import re
from typing import Final

from mindgap.run.message_cleaning import reasons

#: Lines of the message that count, after the noise is gone; and the length of a signature.
_LINES: Final = 3
_LENGTH: Final = 300
_LINE: Final = 1000

#: Lines that say where, or how to debug, not what.
_NOISE: Final = re.compile(
    r"""^\s*(?:
        Traceback\ \(most\ recent | File\ ".*",\ line\ \d+ | frame\ \#\d+ | \#\d+\s+0x | [\^~\s]+$
        | Exception\ raised\ from | \(most\ recent\ call\ first\) | Set\ TORCH | You\ can\ suppress
        | For\ debugging | The\ above\ exception | During\ handling | from\ user\ code | While\ executing
        | Original\ traceback | (?:Current|Thread)\ .*\(most\ recent\ call\ first\) | Extension\ modules:
    )""",
    re.VERBOSE,
)
#: What normalising leaves of a line that held a place and nothing else.
_SILENT: Final = frozenset({"", "Exception from <path>:", "<path>", "<path>:"})
_CODE_LINE: Final = re.compile(r'^(\s*)File ".*", line \d+')

_STEPS: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # Terminal colours.
        (r"\x1b\[[0-9;]*[A-Za-z]", ""),
        # Paths first: a name in one may look like an address. Windows paths, POSIX paths (absolute, ~ or ./ or ../),
        # and relative ones that end in a source suffix.
        (r"\b[A-Za-z]:\\[^\s'\"<>|:,;)\]]+(?::\d+)*", "<path>"),
        (r"(?<![\w<>.)/])(?:~|\.{1,2})?/[^\s'\"<>:,;()\[\]{}`]+(?::\d+)*", "<path>"),
        (r"(?<![\w<])[\w./+-]*\w\.(?:py|pyx|cpp|cc|cxx|cu|cuh|c|h|hpp|so|mlir|onnx)\b(?:[:@(]\d+\)?)*", "<path>"),
        # UUIDs, before their digits look like numbers.
        (r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "<id>"),
        # Addresses and other hexadecimal literals.
        (r"\b0[xX][0-9a-fA-F]+\b", "<addr>"),
        # Floating-point numbers, whose exponents look like digests.
        (r"(?<![\w.<])[-+]?(?:\d+\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]\d+)(?!\w)", "<n>"),
        # Digests and the names that compilers make from them.
        (r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b", "<id>"),
        (r"\b(?=[a-z0-9]*\d)(?=[a-z0-9]*[a-z])[a-z0-9]{24,}\b", "<id>"),
        # Generated names: add_17, primals_5, buf12, arg3.
        (r"(?<=[A-Za-z0-9]_)\d+(?![A-Za-z0-9])", "<n>"),
        (r"\b(arg|buf|tmp|op|node|val|in|out|input|output|kernel|xindex|ks|[su])\d+\b", r"\1<n>"),
        # MLIR shapes: 2x3x4xf32.
        (r"(?<![\w.])(?:(?:\d+|\?)x)+(?=[a-z])", "<n>x"),
        (r"(?<![\w.])\d+(?:x\d+)+(?!\w)", "<n>"),
        # Numbers that stand alone.
        (r"(?<![\w.<])[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?(?![\w])", "<n>"),
        # How many there are in a list does not matter either.
        (r"<n>(?:\s*[,x×:;*]\s*<n>)+,?", "<n>"),
        (r"\s+", " "),
    )
)


def signature(message: str) -> str:
    """Returns the normalized message: at most three lines, joined by ` | `, and 300 characters."""
    kept = [line[:_LINE] for line in _lines_without_frames(message)]
    lines = [line for line in (_normalise(line) for line in reasons(kept)) if line not in _SILENT]
    return " | ".join(list(dict.fromkeys(lines))[:_LINES])[:_LENGTH].rstrip()


def _lines_without_frames(message: str) -> list[str]:
    """Returns the message's lines without stack frames and their source lines."""
    kept: list[str] = []
    frame_indent: int | None = None
    for line in message.splitlines():
        match = _CODE_LINE.match(line)
        if match:
            frame_indent = len(match[1])
        elif frame_indent is not None and len(line) - len(line.lstrip()) > frame_indent:
            continue
        else:
            frame_indent = None
            if line.strip() and not _NOISE.match(line):
                kept.append(line)
    return kept


def _normalise(line: str) -> str:
    # A pattern may take time quadratic in a long word, so a dump of data is cut before, not after.
    line = line[:_LINE]
    for pattern, replacement in _STEPS:
        line = pattern.sub(replacement, line)
    return line.strip()


#: What runtimes print before they abort.
_FATAL: Final = ("terminate called", "what():", "assertion", "check failed", "fatal:")


def last_words(tail: str) -> list[str]:
    """Returns the last lines, at most two, that a runtime printed because it aborted."""
    return [line for line in tail.splitlines() if any(words in line.lower() for words in _FATAL)][-2:]
