"""What is known about an operator apart from its schema: its traits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True, slots=True)
class Traits:
    """The traits of one operator, the same for all its overloads.

    What it computes:

    - `moves_data`: every float result is an element of a float operand, its negative or its magnitude.
    - `fills`: a number among its arguments may land in the result as well.
    - `looks_up`: it moves elements of one operand and computes nothing with them, of any dtype.
    - `hands_on`: a view, a copy or a concatenation; its results are as internal as its operands.
    - `casts`: it converts to another dtype.
    - `contracts`: it sums products along a dimension. `reduces`: its results have fewer dimensions than its operand.
    - `promotes`: it converts whole numbers to the dtype of a float operand before it computes.
    - `random`: its results depend on a random generator.
    - `returns_uninitialised`: its results are unwritten memory.

    Where its results jump or bend:

    - `rounds_to_steps`: its results are whole numbers or signs of float operands.
    - `decides`: rounding of its operands may change a discrete result: a comparison, a choice by order, or a choice
      within a pooling window. `first_of_equals`: among equal elements it is documented to choose the first.
    - `non_smooth`: `bent` where it is continuous with flat parts, `jumps` where it jumps with operand `jumps_at`.

    Which results no standard defines:

    - `undefined_where`: the condition under which elements of its first result are undefined.
    - `undefined_if_not_finite`: the results that NaN or infinity in an operand makes undefined, `all` or those that are
      `not NaN` in float64.
    - `internal_outputs`: result slots that no public function of PyTorch returns. `kernel_chosen_outputs`: of these,
      the ones whose content each kernel chooses. `free_outputs`: slots that any sign, phase or basis satisfies, or
      work areas.
    - `depends_on_dtype`: its results depend on the bits of the declared dtype, so that float64 cannot be its reference.

    Which intermediate values of a correct implementation may leave the range of floats:

    - `intermediates`: what they are. `rounds_each_step`: some implementation rounds them to the declared dtype.
    - `complex_intermediates`: for complex operands, squares of the magnitude or exponentials of the real part.
    """

    family: str = ""
    moves_data: bool = False
    fills: bool = False
    looks_up: bool = False
    hands_on: bool = False
    casts: bool = False
    contracts: bool = False
    reduces: bool = False
    promotes: bool = False
    random: bool = False
    returns_uninitialised: bool = False
    rounds_to_steps: bool = False
    decides: Literal["", "comparison", "order", "pooling"] = ""
    first_of_equals: bool = False
    non_smooth: Literal["", "bent", "jumps"] = ""
    jumps_at: int = 0
    undefined_where: Literal["", "integer division by zero", "shift past the width", "index written twice"] = ""
    undefined_if_not_finite: Literal["", "all", "not NaN"] = ""
    internal_outputs: tuple[int, ...] = ()
    kernel_chosen_outputs: tuple[int, ...] = ()
    free_outputs: tuple[int, ...] = ()
    depends_on_dtype: bool = False
    intermediates: Literal["", "squares", "sums", "products", "elementwise", "scaled operand", "signed weights"] = ""
    rounds_each_step: bool = False
    complex_intermediates: Literal["", "magnitude", "exponential"] = ""


#: Operators of one kind with their traits, by packet (`add`), or packet and overload (`view.dtype`).
Family = dict[str, Traits]


def family(name: str, *groups: tuple[str, Traits]) -> Family:
    """Builds a family from groups of packets, separated by blanks, that share their traits.

    Raises `ValueError` for a packet that occurs twice.
    """
    by_packet: Family = {}
    for packets, traits in groups:
        for packet in packets.split():
            if packet in by_packet:
                raise ValueError(f"{packet} occurs twice in the family {name}")
            by_packet[packet] = replace(traits, family=name)
    return by_packet
