"""What a finding names: operators, a dtype policy of the platform, graph outputs, or a submodule of the program.

`op` is the text of each, which stores, JSON, tables and pages hold. `culprit_of` reads it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, TypeAlias


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


_POLICY: Final = "dtype policy: "
_POLICY_TEXT: Final = re.compile(_POLICY + r"(\S+)( products)?(?: computed in (\S+)| (saturates))?")
_OUTPUTS: Final = "graph outputs"
_SUBMODULE: Final = "submodule "
_WHOLE: Final = "whole program"


@dataclass(frozen=True, slots=True)
class OperatorCulprit:
    """The operator at fault. A graph of it alone shows the finding; a set of several is the smallest that was found.

    `ops`: its overload, or those of a set, each once. `node`: its index in the captured graph, -1 where none is known;
    of a set, the last one. `label`: the line of the user's program that it came from.
    """

    ops: tuple[str, ...]
    node: int = -1
    label: str = ""

    @property
    def op(self) -> str:
        """The overloads, joined by `+`."""
        return "+".join(self.ops)

    @property
    def overloads(self) -> tuple[str, ...]:
        """Those of `ops` that are overloads, and no name that a platform's message gives."""
        return tuple(op for op in self.ops if op.count(".") == 2)


@dataclass(frozen=True, slots=True)
class DtypePolicy:
    """One dtype that the platform computes in another throughout, which no operator explains.

    `computed`: empty where it is not known; equal to `declared` where integers end at their limits and do not wrap.
    `products`: only sums of products are computed in it (matrix products, convolutions, attention).
    """

    declared: str
    computed: str = ""
    products: bool = False
    #: It is no node's and no line's.
    node: ClassVar[int] = -1
    label: ClassVar[str] = ""
    overloads: ClassVar[tuple[str, ...]] = ()

    @property
    def saturates(self) -> bool:
        """Whether integers end at their limits."""
        return self.computed == self.declared

    @property
    def words(self) -> str:
        """The policy without what it is: `float64 computed in float32`."""
        what = f"{self.declared} products" if self.products else self.declared
        if self.saturates:
            return f"{what} saturates"
        return f"{what} computed in {self.computed}" if self.computed else what

    @property
    def op(self) -> str:
        """`dtype policy: float64 computed in float32`."""
        return _POLICY + self.words


@dataclass(frozen=True, slots=True)
class OutputsCulprit:
    """What a failure depends on that no operator explains: which values the graph returns.

    `what`: a text about the outputs. `node`, `label`: of the last operator of the part that fails.
    """

    node: int = -1
    label: str = ""
    what: str = "a value returned twice"
    overloads: ClassVar[tuple[str, ...]] = ()

    @property
    def op(self) -> str:
        """`graph outputs: a value returned twice`."""
        return f"{_OUTPUTS}: {self.what}"


@dataclass(frozen=True, slots=True)
class SubmoduleCulprit:
    """The innermost submodule of the program that the platform's own export changes, or fails on, by itself.

    `path`: empty for the whole program. `label`: the line of the user's program, where known.
    """

    path: str = ""
    label: str = ""
    node: ClassVar[int] = -1
    overloads: ClassVar[tuple[str, ...]] = ()

    @property
    def op(self) -> str:
        """`submodule layers.1`, or `whole program`."""
        return f"{_SUBMODULE}{self.path}" if self.path else _WHOLE

    @property
    def line(self) -> str:
        """The label without the path, which `op` has."""
        return self.label.removeprefix(self.path).strip(" ()") if self.path else self.label


def policy_of(text: str) -> DtypePolicy | None:
    """Reads the text of a dtype policy. None: it is another text."""
    read = _POLICY_TEXT.fullmatch(text)
    if read is None:
        return None
    declared, products, computed, saturates = read.groups()
    policy = DtypePolicy(declared, declared if saturates else computed or "", products is not None)
    return policy if policy.op == text else None


class _CulpritJson:
    """Tells pydantic, which reads JSON reports, how a culprit is made of its JSON."""

    def __get_pydantic_core_schema__(self, _source: Any, _handler: Any) -> Any:
        from pydantic_core import core_schema

        field, text = core_schema.typed_dict_field, core_schema.str_schema()
        fields = {"node": field(core_schema.int_schema()), "op": field(text), "label": field(text, required=False)}
        return core_schema.no_info_after_validator_function(
            lambda given: culprit_of(**given), core_schema.typed_dict_schema(fields)
        )


Culprit: TypeAlias = Annotated[OperatorCulprit | DtypePolicy | OutputsCulprit | SubmoduleCulprit, _CulpritJson()]


def culprit_of(node: int, op: str, label: str = "") -> Culprit:
    """Reads a culprit as stores and JSON hold it. Its `op` is the same text again."""
    policy = policy_of(op)
    if policy is not None and node == -1 and not label:
        return policy
    if node == -1 and (op == _WHOLE or op.startswith(_SUBMODULE)):
        return SubmoduleCulprit("" if op == _WHOLE else op.removeprefix(_SUBMODULE), label)
    if op.startswith(f"{_OUTPUTS}: "):
        return OutputsCulprit(node, label, op.removeprefix(f"{_OUTPUTS}: "))
    return OperatorCulprit(tuple(op.split("+")), node, label)


def culprit_json(culprit: Culprit) -> dict[str, Any]:
    """Returns a culprit as JSON holds it."""
    return {"node": culprit.node, "op": culprit.op, "label": culprit.label}
