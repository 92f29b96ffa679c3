"""One element that an operator gets wrong."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Example:
    """`given`: the call with its operands (`127 + 1`) if `operands`, else the element (`element [0, 3] of mm`).

    `got`: what it gave. `right`: the right result. `why`: the rule that gives the right result, where there is one.
    """

    given: str
    got: str
    right: str
    operands: bool = False
    why: str = ""

    @property
    def sentence(self) -> str:
        """`127 + 1 gave 127; int8 wraps to -128`."""
        return f"{self.given} {'gave' if self.operands else 'is'} {self.got}; {self.why or f'right is {self.right}'}"
