"""Computes from survey answers which share of the operators a platform runs, and lists the gaps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from mindgap.results.support_answers import RUNNING, WORDS, SupportAnswer
from mindgap.results.support_key import SCALAR, Key, packet_of
from mindgap_surveys.support.call_forms import DTYPES

UNTRIED: Final = "untried"
#: From the best to the worst.
ALL_WORDS: Final = (*WORDS, UNTRIED)
_PLAIN: Final = frozenset({"contiguous", SCALAR})


@dataclass(frozen=True, slots=True)
class OperatorGap:
    """The calls of an operator that a platform does not run, though the reference does.

    `whole`: it runs no call of the operator; otherwise the gap is `dtypes` and `layouts`. `word`: the best answer.
    `reason`: the most frequent reason among answers with that word.
    """

    op: str
    word: str
    whole: bool
    dtypes: tuple[str, ...]
    layouts: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class OperatorCoverage:
    """Counts by word. A packet or overload counts as the best of its calls. `dtypes`: overloads that run in a dtype
    plainly laid out, and overloads that were tried in it."""

    packets: Mapping[str, int]
    overloads: Mapping[str, int]
    calls: Mapping[str, int]
    dtypes: Mapping[str, tuple[int, int]]
    lacks: tuple[OperatorGap, ...]


def operator_coverage(keys: Iterable[Key], answers: Mapping[Key, SupportAnswer]) -> OperatorCoverage:
    """Counts the answers for the keys; a key without an answer is `untried`."""
    words = {key: (answers[key].answer if key in answers else UNTRIED) for key in sorted(keys)}
    by_op: dict[str, list[Key]] = {}
    for key in words:
        by_op.setdefault(key.op, []).append(key)
    overloads = {op: _best(words[key] for key in group) for op, group in by_op.items()}
    by_packet: dict[str, list[str]] = {}
    for op, word in overloads.items():
        by_packet.setdefault(packet_of(op), []).append(word)
    lacks = [lack for op, group in by_op.items() for lack in _lacks(op, group, words, answers)]
    return OperatorCoverage(
        packets=_counts(_best(words_of) for words_of in by_packet.values()),
        overloads=_counts(overloads.values()),
        calls=_counts(words.values()),
        dtypes={dtype: _running(dtype, words) for dtype in DTYPES},
        lacks=tuple(sorted(lacks, key=lambda lack: (not lack.whole, lack.op, lack.dtypes, lack.layouts))),
    )


@dataclass(frozen=True, slots=True)
class VersionCoverage:
    """What a platform runs in one version and not in the other, by operator."""

    gained: tuple[OperatorGap, ...]
    lost: tuple[OperatorGap, ...]


def version_coverage(
    keys: Iterable[Key], before: Mapping[Key, SupportAnswer], after: Mapping[Key, SupportAnswer]
) -> VersionCoverage:
    """Compares the answers of two versions for the keys that both answered."""
    both = [key for key in keys if key in before and key in after]
    ran = {key for key in both if before[key].answer in RUNNING}
    runs = {key for key in both if after[key].answer in RUNNING}
    return VersionCoverage(gained=operator_coverage(runs, before).lacks, lost=operator_coverage(ran, after).lacks)


def _best(words: Iterable[str]) -> str:
    return min(words, key=ALL_WORDS.index)


def _counts(words: Iterable[str]) -> dict[str, int]:
    counts = Counter(words)
    return {word: counts[word] for word in ALL_WORDS}


def _running(dtype: str, words: Mapping[Key, str]) -> tuple[int, int]:
    plain = {key.op: word for key, word in words.items() if key.dtype == dtype and key.layout in _PLAIN}
    tried = {op: word for op, word in plain.items() if word != UNTRIED}
    return sum(word in RUNNING for word in tried.values()), len(tried)


def _lacks(
    op: str, group: list[Key], words: Mapping[Key, str], answers: Mapping[Key, SupportAnswer]
) -> list[OperatorGap]:
    missing = [key for key in group if words[key] not in RUNNING]
    if not missing:
        return []
    if len(missing) == len(group):
        return [_lack(op, missing, words, answers, whole=True)]
    running = {key.dtype for key in group if words[key] in RUNNING}
    parts: dict[tuple[str, str], list[Key]] = {}
    for key in missing:
        # A dtype that runs in no layout is one lack; a layout that fails in a dtype that runs is another.
        what = "" if key.dtype not in running else key.layout
        parts.setdefault((words[key], what), []).append(key)
    return [_lack(op, found, words, answers, whole=False) for found in parts.values()]


def _lack(
    op: str, keys: list[Key], words: Mapping[Key, str], answers: Mapping[Key, SupportAnswer], whole: bool
) -> OperatorGap:
    word = _best(words[key] for key in keys)
    reasons = Counter(answers[key].reason for key in keys if key in answers and words[key] == word)
    reason = reasons.most_common(1)[0][0] if reasons else ""
    dtypes = tuple(dict.fromkeys(key.dtype for key in keys))
    return OperatorGap(op, word, whole, dtypes, tuple(dict.fromkeys(key.layout for key in keys)), reason)
