"""Defines classes, determinism and the mode of repeated runs: as the paper does, and as mindgap does.

| | paper | mindgap |
|---|---|---|
| class numbers, from 1 | in the order of first appearance | largest class first, equal sizes by first appearance |
| output of repeated runs | the most frequent; of a tie one, the tie unseen | the same, the tie recorded |

Two outputs are equal if their positional digests are: −0 ≠ +0, NaN = NaN. The paper compares by `==` (−0 = +0, NaN ≠
NaN). Its published outputs have no −0 and no NaN, so that both give the same classes.

Source: section 2 ("Conventions") and the captions of Tables SUP-1 and SUP-2. The paper does not define the mode of a
tie. Its code takes the largest of the tied outputs in lexicographic order of values, and so does `most_frequent`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mindgap.graph import Array, MindgapError
from mindgap.graph.compare.digest import digest_array, widened


@dataclass(frozen=True, slots=True)
class Mode:
    """The most frequent of repeated outputs.

    `index`: of the first run that gave it. `count`: runs that gave it, of `runs`. `distinct`: different outputs.
    `ties`: the first runs of other outputs that are as frequent.
    """

    index: int
    count: int
    runs: int
    distinct: int
    ties: tuple[int, ...]

    @property
    def deterministic(self) -> bool:
        return self.distinct == 1


def class_numbers(identities: Sequence[str], *, largest_first: bool = False) -> tuple[int, ...]:
    """Returns the class of each output, from 1. `identities`: digests. `largest_first`: classes are numbered by size,
    as mindgap does; otherwise in the order of first appearance, as the paper does."""
    appeared = list(dict.fromkeys(identities))
    if largest_first:
        appeared.sort(key=identities.count, reverse=True)
    number = {digest: i for i, digest in enumerate(appeared, 1)}
    return tuple(number[digest] for digest in identities)


def numbers(values: Sequence[Array], *, largest_first: bool = False) -> tuple[int, ...]:
    return class_numbers([digest_array(each) for each in values], largest_first=largest_first)


def most_frequent(runs: Sequence[Array]) -> Mode:
    """Returns the mode of repeated outputs of one dtype and shape. Raises `MindgapError` for no runs."""
    if not runs:
        raise MindgapError("no runs: a most frequent output needs at least one")
    found = numbers(runs)
    first = {number: found.index(number) for number in dict.fromkeys(found)}
    count = max(found.count(number) for number in first)
    tied = [first[number] for number in first if found.count(number) == count]
    chosen = max(tied, key=lambda i: widened(runs[i]).reshape(-1).tolist())
    return Mode(chosen, count, len(runs), len(first), tuple(i for i in tied if i != chosen))
