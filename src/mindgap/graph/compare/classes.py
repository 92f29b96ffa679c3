"""Groups platforms whose outputs are identical (equivalence classes)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

Name = TypeVar("Name", bound=str)


def equivalence_classes(outcomes: Mapping[Name, tuple[str, ...]]) -> list[set[Name]]:
    """Platforms, as classes of equal outputs: largest class first, equal sizes by their first platform's name.

    `outcomes`: platform -> the digests of its outputs, in order. Digests forgive NaN payloads and signs, so two
    platforms that both answer NaN are in one class. A platform that gave no outputs belongs in no class: leave it out.
    """
    classes: dict[tuple[str, ...], set[Name]] = {}
    for platform, digests in outcomes.items():
        classes.setdefault(digests, set()).add(platform)
    return sorted(classes.values(), key=lambda members: (-len(members), min(members)))
