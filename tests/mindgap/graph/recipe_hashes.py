"""Prints, or returns, the SHA-256 of the bytes of every recipe in every dtype: run under other settings to compare."""

from __future__ import annotations

import hashlib
import json

from mindgap.graph import (
    DTYPES,
    Constant,
    Exceptional,
    Input,
    Integers,
    Normal,
    Permutation,
    Recipe,
    TensorSpec,
    Uniform,
    kind_of,
    materialise,
)
from mindgap.graph.recipe_rules import integer_range

#: Odd sizes, so that vector loops have tails; enough elements for many rare roundings.
SHAPE = (7, 1301)


def recipes(dtype: str) -> dict[str, Recipe]:
    """The recipes that fit a dtype, with seeds of several sizes."""
    kind = kind_of(dtype)
    fits: dict[str, Recipe] = {}
    if kind in ("float", "complex"):
        fits["uniform"] = Uniform(1)
        fits["uniform signed"] = Uniform(2**64 + 3, -1.7, 0.9)
        fits["normal"] = Normal(3)
        fits["normal wide"] = Normal(4, -0.3, 37.0)
        fits["exceptional"] = Exceptional(2**127 + 5, 0.4)
        fits["constant"] = Constant(0.1)
    else:
        least, largest = integer_range(dtype)
        fits["integers"] = Integers(6, 0, min(largest, 100) + 1)
        fits["integers all"] = Integers(7, least, largest + 1)
        fits["integers most"] = Integers(8, least, largest)
        fits["constant"] = Constant(largest)
    if kind == "int":
        fits["permutation"] = Permutation(9)
    return fits


def hashes() -> dict[str, dict[str, str]]:
    """dtype -> recipe -> the first 16 hex digits of the hash."""
    found: dict[str, dict[str, str]] = {}
    for dtype in DTYPES:
        for name, recipe in recipes(dtype).items():
            shape = (7, 101) if name == "permutation" else SHAPE
            try:
                array = materialise(Input(TensorSpec.contiguous(dtype, shape), recipe))
            except Exception as error:
                raise AssertionError(f"{dtype} {name}") from error
            found.setdefault(dtype, {})[name] = hashlib.sha256(array.tobytes()).hexdigest()[:16]
    return found


if __name__ == "__main__":
    print(json.dumps(hashes()))
