"""Classifies what iree-turbine raises, and what IREE's compiler and runtime print or raise."""

from __future__ import annotations

import re
from typing import Final

from mindgap.graph import Graph
from mindgap.platforms.messages import MessageTable, Reading, refusal

TABLE: Final = MessageTable(
    "IREE",
    (
        refusal(
            "no lowering",
            r"failed to legalize operation 'torch\.(?:aten\.|operator')",
            "the compiler has no lowering of the operator, or of this case of it",
            "Diagnostics",
        ),
        refusal(
            "no lowering, seen at an argument",
            r"failed to legalize operation 'torch\.(?:constant|prim)\.",
            "an argument of PyTorch's is left where the operator that takes it has no lowering",
            "Diagnostics",
        ),
        refusal("not implemented", r"", "iree-turbine says so", "NotImplementedError"),
        refusal("dtype without a translation", r"^torch\.\w+$", "iree-turbine's table of dtypes lacks it", "KeyError"),
    ),
)
#: The operator in the operation of torch-mlir that stands for those without one of their own, or the operation.
_OPERATOR: Final = re.compile(r'<\{name = "torch\.(?P<name>[\w.]+)"\}>|operation \'(?:torch\.)?(?P<operation>[\w.]+)\'')


def read(error: BaseException) -> Reading:
    """Classifies an exception. `operator`: the operator of ATen, or of MLIR, that the message is about."""
    message = str(error)
    row = TABLE.find(message, type(error).__name__)
    named = [match["name"] or match["operation"] for match in _OPERATOR.finditer(message)]
    return Reading(
        "failure" if row is None else row.kind, row, "", next((each for each in named if each.startswith("aten.")), "")
    )


def aten_operator(found: Reading, graph: Graph) -> str:
    """Returns the graph's operator that a message is about: its only one, or one of that name; else IREE's name.

    torch-mlir leaves out the overload `default`, and decompositions make other operators of the graph's.
    """
    called = {node.op for node in graph.nodes}
    if len(called) == 1:
        return next(iter(called))
    named = found.operator
    exact = [op for op in called if op in (named, f"{named}.default")]
    same = exact or [op for op in called if named and op.rpartition(".")[0] == named]
    return same[0] if len(same) == 1 else named
