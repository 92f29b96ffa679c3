"""The page on what a change touches names files that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`((?:mindgap\w*|tests|tools|benchmarks)/[\w./-]+)`")


def test_each_named_file_is_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    text = page.partition("## What a change touches")[2]
    named = [
        path for path in NAMED.findall(text) if "NAME" not in path and "PACKAGE" not in path and "FAMILY" not in path
    ]
    assert len(named) > 20
    places = [ROOT / ("src" if path.startswith("mindgap") else "") / path for path in named]
    assert not [str(place) for place in places if not place.exists()]
