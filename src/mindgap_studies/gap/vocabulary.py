"""Returns SQL fragments that the queries of this study share: platform names, verdict words, size classes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mindgap.graph.compare.verdict import FINDINGS

#: Verdicts of outputs that were compared: nothing for a person to look at, and wrong.
CALM: Final = ("identical", "rounding", "ill_conditioned", "internal", "undefined")
WRONG: Final = ("structural", "exceptional", "discrepant", "reduced_precision")
#: Every word that a row can have, worst first; the last five are no verdicts.
WORDS: Final = (
    *FINDINGS,
    *("undefined", "internal", "ill_conditioned", "rounding", "identical"),
    *("not_judged", "unjudged", "not_run", "unsupported", "no_reference"),
)
#: Nodes of the largest graph of each class but the last.
_SIZES: Final = (10, 60, 300, 1000)


def listed(words: Iterable[str]) -> str:
    """Formats words as `('a', 'b')`, for IN."""
    return "(" + ", ".join("'" + word.replace("'", "''") + "'" for word in words) + ")"


#: Whether an outcome has outputs, of its `status`.
RAN: Final = "status IN ('ok', 'nondeterministic')"
#: The verdicts of a run against its own reference; a campaign may have others beside them.
VERDICTS: Final = "FROM verdicts WHERE run = $run AND reference = (SELECT reference FROM runs WHERE run = $run)"


def device(platform: str = "platform") -> str:
    """Extracts `cpu` from `cpu/eager@isa=avx2`."""
    return f"split_part({platform}, '/', 1)"


def mode(platform: str = "platform") -> str:
    """Extracts `eager` from `cpu/eager@isa=avx2`; for a runtime without modes (`onnxruntime/cpu`), the device."""
    return f"split_part(split_part({platform}, '@', 1), '/', 2)"


def size(nodes: str = "nodes") -> str:
    low, parts = 1, list[str]()
    for high in _SIZES:
        parts.append(f"WHEN {nodes} <= {high} THEN '{low:,}–{high:,} nodes'")
        low = high + 1
    return f"CASE {' '.join(parts)} ELSE 'over {_SIZES[-1]:,} nodes' END"


def answer(outputs: str = "outputs") -> str:
    """Returns a value that is equal for two outcomes if all outputs are bit-identical."""
    return f"list_transform({outputs}, lambda o: (o.dtype, o.shape, o.digest))"


def counted(words: Iterable[str], of: str) -> str:
    """Returns one column per word: the number of rows in which `of` is that word."""
    return ",\n       ".join(f"count(*) FILTER (WHERE {of} = '{word}') AS {word}" for word in words)


def share(part: str, whole: str) -> str:
    return f"({part}) / nullif({whole}, 0)"


def within(profile: str) -> str:
    """Tells whether outputs are within a profile's tolerance: never with another shape or dtype.

    Null if the profile was not computed or the row not judged.
    """
    return f"CASE WHEN verdict = 'structural' THEN false WHEN verdict IS NOT NULL THEN profiles['{profile}'] END"
