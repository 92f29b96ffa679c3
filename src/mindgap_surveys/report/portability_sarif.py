"""Writes the functions of a package that a platform does not run right as SARIF 2.1.0."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version as mindgap_version
from pathlib import Path
from typing import Final

from mindgap.report.sarif import location_of, sarif_log
from mindgap_surveys.support.portability import STOPS, FunctionUse

_PORTING: Final[Mapping[str, str]] = {
    "lacks": "the platform runs no sample of a function that the code uses",
    "in_part": "the platform runs some samples of a function that the code uses",
    "differs": "the platform gives other results of a function that the code uses than rounding explains",
}


def sarif_of_portability(found: Sequence[FunctionUse], root: Path) -> str:
    """SARIF of a package's functions: a result at each line that uses one which a platform does not run right."""
    folder = root.parent if root.is_file() else root
    results = [
        {
            "ruleId": ported.word.replace(" ", "_"),
            "level": "warning" if ported.word == "in part" else "error",
            "message": {"text": f"{use.function} on {platform}: {ported.word}: {ported.reason}"},
            "locations": [location_of(use.function, str(folder / place.file), place.line)],
            "properties": {"platform": platform, "sample": ported.sample},
        }
        for use in found
        for platform, ported in use.platforms.items()
        if ported.word in STOPS
        for place in use.places
    ]
    return sarif_log(results, mindgap_version("mindgap"), _PORTING)
