"""Brings the names under which one kernel or translation is called to one name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Final

#: Python's names of operators.
_PYTHON: Final = {
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "__xor__": "bitwise_xor",
    "__lshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift",
}
#: Operators whose names end in a suffix of a wrapper and are none.
_WHOLE: Final = frozenset({"index_copy", "is_coalesced_copy"})
_WRAPPERS: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # One function, several kernels for the same result.
        (r"^_scaled_dot_product_\w*attention(?!\w*backward)\w*$", "scaled_dot_product_attention"),
        (r"^(?:cudnn|miopen|mkldnn|native|slow|thnn)_(?=\w)", ""),
        (r"_(?:legit_no_training|legit_functional|legit|no_training|with_indices|forward_only|forward|kernel)$", ""),
        (r"_(?:interface|functional|copy)$", ""),
    )
)


@cache
def function_of(op: str) -> str:
    """The function that an overload belongs to: `aten._softmax.default` and `aten.softmax.int` give `softmax`.

    In-place forms, forms that write to an operand, copies of views, and forms that return values for the backward pass
    as well have the name of the plain function.
    """
    namespace, packet, _ = op.split(".") if op.count(".") == 2 else ("aten", op, "")
    if packet.startswith("__"):
        packet = packet.replace("__i", "__", 1) if packet.replace("__i", "__", 1) in _PYTHON else packet
        return _PYTHON.get(packet, packet)
    name = packet.strip("_")
    if name not in _WHOLE:
        for pattern, replacement in _WRAPPERS:
            name = pattern.sub(replacement, packet if replacement and pattern.match(packet) else name)
            name = name.strip("_") or packet
    return name if namespace in ("aten", "torch_nn") else f"{namespace}.{name}"


def functions_of(operators: Iterable[str]) -> tuple[str, ...]:
    """The distinct functions, sorted."""
    return tuple(sorted({function_of(op) for op in operators}))
