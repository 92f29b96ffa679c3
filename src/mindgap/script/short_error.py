"""Writes the function `error` of a short script: how far a result is from another."""

from __future__ import annotations

from typing import Final, Literal

#: What an error is relative to: the largest element of the output, or its own element; or whether elements are equal.
Compare = Literal["largest", "element", "equal"]

_COMPARE: Final = '''

def error(found, exact):
    """The largest difference, relative to MAGNITUDE.

    Infinity where shapes, NaN or infinities differ, and where results that are no floats differ at all.
    """
    if found.shape != exact.shape:
        return float("inf")
    if not (exact.is_floating_point() or exact.is_complex()):
        return 0.0 if torch.equal(found, exact) else float("inf")
    if exact.is_complex():
        found, exact = torch.view_as_real(found.resolve_conj()), torch.view_as_real(exact.resolve_conj())
    found, exact = found.double(), exact.double()
    finite = exact.isfinite()
    same = torch.equal(found.isnan(), exact.isnan()) and torch.equal(found.isfinite(), finite)
    if not same or not torch.equal(found[exact.isinf()], exact[exact.isinf()]):
        return float("inf")
    if not finite.any():
        return 0.0
'''
#: What a script divides by -> its words, and the end of `error`.
_ENDS_OF_COMPARE: Final = {
    "largest": (
        "the largest magnitude of `exact`",
        """    worst, size = (found - exact)[finite].abs().max(), exact[finite].abs().max()
    return float(worst / size) if size else float(worst)
""",
    ),
    "element": (
        "the element of `exact`",
        """    apart = (found - exact)[finite].abs()
    return float((apart / exact[finite].abs())[apart > 0].max()) if apart.any() else 0.0
""",
    ),
}
_EQUAL: Final = '''

def error(found, expected):
    """0 where shapes and elements are equal, else infinity: nothing here is rounded but by a cast. NaN equals NaN."""
    if found.shape != expected.shape:
        return float("inf")
    equal = (found == expected) | ((found != found) & (expected != expected))
    return 0.0 if equal.all() else float("inf")
'''


def error_source(compare: Compare) -> str:
    """Returns the function's source."""
    if compare == "equal":
        return _EQUAL
    words, end = _ENDS_OF_COMPARE[compare]
    return _COMPARE.replace("MAGNITUDE", words) + end
