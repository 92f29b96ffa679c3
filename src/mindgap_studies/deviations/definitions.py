"""Defines classes, determinism and the mode of repeated runs: as the paper does, and as mindgap does.

| | paper | mindgap |
|---|---|---|
| two outputs are equal | `==` on all elements: −0 = +0, NaN ≠ NaN | equal positional digests: −0 ≠ +0, NaN = NaN |
| class numbers, from 1 | in the order of first appearance | largest class first, equal sizes by first appearance |
| output of repeated runs | the most frequent; of a tie one, the tie unseen | the same, the tie recorded |

Source: section 2 ("Conventions") and the captions of Tables SUP-1 and SUP-2. The paper does not define the mode of a
tie. Its code takes the largest of the tied outputs in lexicographic order of values, and so does `most_frequent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mindgap.graph import Array, MindgapError
from mindgap.graph.compare.digest import widened
from mindgap_studies.equivalence.equality import BITS, VALUES, Equality, identity


@dataclass(frozen=True, slots=True)
class Profile:
    """A set of definitions. `largest_first`: how classes are numbered; otherwise in the order of first appearance."""

    equality: Equality
    largest_first: bool
    records_ties: bool


PAPER: Final = Profile(VALUES, largest_first=False, records_ties=False)
OURS: Final = Profile(BITS, largest_first=True, records_ties=True)


@dataclass(frozen=True, slots=True)
class Mode:
    """The most frequent of repeated outputs.

    `index`: of the first run that gave it. `count`: runs that gave it, of `runs`. `distinct`: different outputs.
    `ties`: the first runs of other outputs that are as frequent; empty under a profile that does not record ties.
    """

    index: int
    count: int
    runs: int
    distinct: int
    ties: tuple[int, ...]

    @property
    def deterministic(self) -> bool:
        return self.distinct == 1


def class_numbers(identities: Sequence[str | None], profile: Profile) -> tuple[int, ...]:
    """Returns the class of each output, from 1. `identities`: digests by `identity`; None is a class of its own."""
    keys = [f"alone {i}" if each is None else each for i, each in enumerate(identities)]
    appeared = list(dict.fromkeys(keys))
    if profile.largest_first:
        appeared.sort(key=keys.count, reverse=True)
    number = {key: i for i, key in enumerate(appeared, 1)}
    return tuple(number[key] for key in keys)


def numbers(values: Sequence[Array], profile: Profile) -> tuple[int, ...]:
    return class_numbers([identity(each, profile.equality) for each in values], profile)


def most_frequent(runs: Sequence[Array], profile: Profile) -> Mode:
    """Returns the mode of repeated outputs of one dtype and shape. Raises `MindgapError` for no runs."""
    if not runs:
        raise MindgapError("no runs: a most frequent output needs at least one")
    found = numbers(runs, profile)
    first = {number: found.index(number) for number in dict.fromkeys(found)}
    count = max(found.count(number) for number in first)
    tied = [first[number] for number in first if found.count(number) == count]
    chosen = max(tied, key=lambda i: widened(runs[i]).reshape(-1).tolist())
    ties = tuple(i for i in tied if i != chosen) if profile.records_ties else ()
    return Mode(chosen, count, len(runs), len(first), ties)
