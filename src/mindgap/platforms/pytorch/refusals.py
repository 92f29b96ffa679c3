"""Which of PyTorch's errors say "this operator or dtype is not implemented here", and which are plain failures."""

from __future__ import annotations

import re
from typing import Final

_DTYPE: Final = (
    r"(?:torch\.)?(?:c10::)?(?:complex(?:32|64|128)?|ComplexHalf|ComplexFloat|ComplexDouble|half|float16|bfloat16|"
    r"float8\w*|float32|float64|float|double|bool|boolean|byte|char|short|int|long|u?int(?:8|16|32|64))"
)
#: RuntimeErrors that are refusals by what they say. Each names a dtype or an operator that is not supported,
#: so that a wrong shape, a bad index or a mixture of dtypes is none of them.
_REFUSALS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r'"[^"]+" not implemented for \'\w+\'',
        r"promotion for float8 types is not supported",
        r"low precision dtypes not supported",
        r"^unsupported dtype \w+",
        rf"(?:do(?:es)?(?: not|n't)|do(?:es)?n't) (?:currently |yet )?support (?:\w+ )?{_DTYPE}\b(?! ?\d)",
        rf"(?:is|are) not (?:yet |currently )?(?:implemented|supported) (?:for|with|on) (?:the )?{_DTYPE}\b",
        rf"on a {_DTYPE} tensor is not supported",
        rf"with (?:two|a) {_DTYPE} tensors? is not supported",
        r"could not run '[\w:.]+' with arguments from the '\w+' backend",
        r"only supports? floating[- ]point(?: and complex)? dtypes",
        r"input dtype must be either a floating point or complex dtype",
        r"unsupported argument type in the JIT tracer",
        r"does not have a deterministic implementation, but you set",  # deterministic=on
        r"^no (?:viable backend|available kernel)(?: for scaled_dot_product_attention was found|\. Aborting execution)",
        r"the MPS framework doesn't support \w+",
        r"TORCH_NPU_FALLBACK_CPU_DISABLE",  # it has no kernel, and may not go to the CPU
        r"^UNIMPLEMENTED:",  # XLA's status
    )
)
#: Exceptions of the compilers, by name: they are private, and move between versions.
_TYPED: Final = frozenset(
    {
        "UnsupportedOperatorException",
        "MissingOperatorWithDecomp",
        "MissingOperatorWithoutDecomp",
        "DynamicOutputShapeException",
        "DataDependentOutputException",
    }
)
_QUALIFIED: Final = re.compile(r"\baten(?:::|\.)(\w+)(?:\.(\w+))?")


def refusal(error: BaseException) -> str | None:
    """Why the platform refuses, in PyTorch's words, on one line; None where `error` is no refusal.

    Looks at the innermost cause first, for what wraps it quotes it. A `NotImplementedError` that PyTorch's
    dispatcher raised carries a message; a bare one is a bug.
    """
    for cause in reversed(causes(error)):
        text = str(cause).strip()
        if type(cause).__name__ in _TYPED:
            return _line(text) or type(cause).__name__
        if isinstance(cause, NotImplementedError) and text:
            return _line(text)
        if isinstance(cause, (RuntimeError, TypeError)) and any(p.search(_head(text)) for p in _REFUSALS):
            return _line(text)
    return None


def refused_operator(error: BaseException) -> str | None:
    """The operator that a compiler's message names (`aten.foo.default`), None where it names none."""
    for cause in reversed(causes(error)):
        found = _QUALIFIED.search(str(cause))
        if found:
            return f"aten.{found[1]}.{found[2] or 'default'}"
    return None


def causes(error: BaseException) -> list[BaseException]:
    """The error and what it was raised from, outermost first."""
    found: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in found:
        found.append(current)
        inner = getattr(current, "inner_exception", None)  # how Inductor's errors carry the real one
        current = inner if isinstance(inner, BaseException) else current.__cause__
    return found


def _head(text: str) -> str:
    """The first lines: compilers append stacks that quote other errors."""
    return "\n".join(text.splitlines()[:3])


def _line(text: str) -> str:
    first = next(iter(text.splitlines()), "").strip()
    for advice in (" This could be because", " You can turn off determinism"):
        first = first.partition(advice)[0]
    return first
