"""Defines the errors and warnings of capture."""

from __future__ import annotations

from mindgap.graph import MindgapError


class CaptureError(MindgapError):
    """The program cannot be captured. `reason`: the cause; `line`: `file.py:42` of the user's code, or ""."""

    def __init__(self, reason: str, line: str = "") -> None:
        super().__init__(f"cannot capture{' at ' + line if line else ''}: {reason}")
        self.reason = reason
        self.line = line


class ProgramError(CaptureError):
    """The program itself fails in eager mode: neither capture nor a platform has part in it."""

    def __init__(self, reason: str, line: str = "") -> None:
        MindgapError.__init__(self, f"the program itself raises {reason}{f' ({line})' if line else ''}")
        self.reason = reason
        self.line = line


class NoValues(ProgramError):
    """A tensor of the program, `name`, has no values: nothing can run it."""

    def __init__(self, name: str) -> None:
        CaptureError.__init__(
            self,
            f"{name} is on the meta device and has no values: give the module memory "
            '(module.to_empty(device="cpu")), then load or initialise its weights',
        )


class ReplayDiffers(CaptureError):
    """The graph gives other outputs than the program. `output`: the first of them."""

    def __init__(self, output: str, which: str) -> None:
        super().__init__(
            f"output {output} replays differently on {which}: the program depends on something that is no input (a "
            "value turned into a Python number or array, Python state, memory written behind PyTorch)"
        )
        self.output = output


class SourceNote(UserWarning):
    """What a person is to know of a graph: what in it is not the program's own, or was not checked."""


class UnprovenCapture(SourceNote):
    """A capture was not replayed against the program."""


class CompiledPart(UserWarning):
    """A submodule is compiled with `torch.compile`; its graph is that of the module as it was written."""


class QuantisedPart(UserWarning):
    """Quantised modules were unpacked, and an operator's definition differs from PyTorch's by a rounding."""


class PathTaken(UserWarning):
    """Values of the arguments decided which branch or how many iterations are in the graph."""


class WrongDeclaration(UserWarning):
    """The fake kernel or the schema of a custom operator does not fit what it computes."""
